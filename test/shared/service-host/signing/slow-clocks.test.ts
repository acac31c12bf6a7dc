/** Commits at a time before their key begins: verifications reject them, so the service goes over to a key that has begun. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { V7Generator } from "uuidv7";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newSigningKeyPem, signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { appendTenantAudit } from "../../../../shared/records/audit/tenant-audit.ts";
import { listSigningKeys, type StoredSigningKey } from "../../../../shared/records/signing/key-record.ts";
import { requestRotation, serviceActor } from "../../../../shared/records/signing/key-registry.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openSigning, type Signing } from "../../../../shared/service-host/signing/signing.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { register, repositoryOn, storeSignedBy, WRITING } from "../../../harness/records/signed.ts";

const WAIT = { timeout: 30_000 };
const HOUR_MS = 3_600_000;

let records: TestRecords;
let home: string;
/** Of the clock of every service that this test starts. */
let aheadMs: number;
const now = () => Date.now() + aheadMs;
const open: Signing[] = [];

beforeEach(async () => {
  records = await openTestRecords("memory");
  home = mkdtempSync(join(tmpdir(), "fleet-slow-clocks-"));
  aheadMs = 0;
});

afterEach(async () => {
  await stopAll();
  await records.close();
  rmSync(home, { recursive: true });
});

async function start(clockNow = now): Promise<Signing> {
  const clock = { ...systemClock, now: clockNow };
  const context = { log: testLog, metrics: createMetrics({ ofProcess: false }), clock };
  const signing = await openSigning(context, records.store, { service: "standalone", home });
  open.push(signing);
  return signing;
}

const stopAll = () => Promise.all(open.splice(0).map(({ stop }) => stop()));
const fileOf = () => join(home, "signing-key.pem");
const keyOfFile = () => signingKeyFrom(readFileSync(fileOf(), "utf8")).id;
const keyOf = (signing: Signing) => signing.state().key_id!;

async function keys(): Promise<Readonly<Record<string, StoredSigningKey>>> {
  const list = await records.store.read(WRITING, listSigningKeys);
  return Object.fromEntries(list.map((key) => [key.key_id, key]));
}

/** Of a client whose clock agrees with that of the service. */
const idAt = (ms: number): string => new V7Generator().generateOrResetWithTs(ms).toString();

let written = 0;

/** Appends to the chains of a new task, of the default tenant and of its access log. */
async function write(store: Store, clockNow = now): Promise<void> {
  const repository = repositoryOn(store, records, clockNow);
  written += 1;
  await create(repository, { task: `task-${written}`, commandId: idAt(clockNow()) });
  const at = new Date(clockNow()).toISOString();
  const act = { action: "scrub_start", actor: serviceActor("reader"), at, subject: {} } as const;
  await store.transact(WRITING, (tx) => appendTenantAudit(tx, "default", [act]));
  const batch = { session: `session-${written}`, n: 1, state: "open", entries: [], lost: 0 } as const;
  await repository.accessLogs.append("default", batch);
}

async function expectSound({ store }: Signing): Promise<void> {
  const repository = repositoryOn(store, records, now);
  await scrub({ store: records.store, repository });
  expect(await findingsOf(repository)).toEqual([]);
}

/** The key of the file follows the one before, which keeps its use: what it has signed stays valid. */
async function expectReplaced(before: string): Promise<void> {
  const after = keyOfFile();
  expect(await keys()).toMatchObject({
    [before]: { not_after: null, revoked_at: null },
    [after]: { replaces: before, not_after: null },
  });
}

test("a key that a clock an hour ahead has registered is replaced when the clock is right again", async () => {
  aheadMs = HOUR_MS;
  const fast = await start();
  await write(fast.store);
  const before = keyOf(fast);
  await stopAll();
  aheadMs = 0;
  const right = await start();
  await write(right.store);
  await expectReplaced(before);
  expect(keyOf(right)).toBe(keyOfFile());
  await expectSound(right);
  await stopAll();
  // The successor stays.
  await write((await start()).store);
  expect(Object.keys(await keys())).toHaveLength(2);
});

test("a service that starts with a clock before its key goes over to another key, and keeps that later", async () => {
  const first = await start();
  await write(first.store);
  const before = keyOf(first);
  await stopAll();
  aheadMs = -HOUR_MS;
  const slow = await start();
  await write(slow.store);
  await expectReplaced(before);
  await expectSound(slow);
  await stopAll();
  aheadMs = 0;
  const right = await start();
  await write(right.store);
  expect(Object.keys(await keys())).toHaveLength(2);
  await expectSound(right);
});

test("a clock that is set back while the service runs costs no commit", async () => {
  const signing = await start();
  await write(signing.store);
  const before = keyOf(signing);
  aheadMs = -HOUR_MS;
  await Promise.all([write(signing.store), write(signing.store)]);
  await expectReplaced(before);
  expect(Object.keys(await keys())).toHaveLength(2);
  await expectSound(signing);
});

test("a clock that is set back within the difference of clocks keeps the key", async () => {
  const signing = await start();
  aheadMs = -25_000;
  await write(signing.store);
  expect(Object.keys(await keys())).toEqual([keyOf(signing)]);
  await expectSound(signing);
});

test("a key does not sign its own end at a time before its begin", async () => {
  const signing = await start();
  const before = keyOf(signing);
  const other = signingKeyFrom(newSigningKeyPem());
  await register(storeSignedBy(records.store, other), other, Date.now() - 2 * HOUR_MS);
  aheadMs = -HOUR_MS;
  const change = { actor: serviceActor("test"), nowMs: now() };
  await storeSignedBy(records.store, other).transact(WRITING, (tx) => requestRotation(tx, before, change));
  await vi.waitFor(() => expect(keyOf(signing)).not.toBe(before), WAIT);
  await expectReplaced(before);
  await expectSound(signing);
});

test("a service whose clock is before its key goes over to the key that an operator gives it", async () => {
  const signing = await start();
  const before = keyOf(signing);
  const other = signingKeyFrom(newSigningKeyPem());
  await register(storeSignedBy(records.store, other), other, Date.now() - 2 * HOUR_MS);
  aheadMs = -HOUR_MS;
  writeFileSync(fileOf(), newSigningKeyPem());
  const given = keyOfFile();
  const change = { actor: serviceActor("test"), nowMs: now() };
  // Wakes the service, which would otherwise examine the file after ten seconds.
  await storeSignedBy(records.store, other).transact(WRITING, (tx) => requestRotation(tx, before, change));
  await vi.waitFor(() => expect(keyOf(signing)).toBe(given), WAIT);
  expect(keyOfFile()).toBe(given);
  await write(signing.store);
  await expectSound(signing);
});

test("services of one key file with clocks an hour apart agree on a key that has begun for both", async () => {
  const ofFast = () => Date.now() + HOUR_MS;
  const fast = await start(ofFast);
  const before = keyOf(fast);
  await write(fast.store, ofFast);
  const right = await start();
  await write(right.store);
  await vi.waitFor(() => expect(keyOf(fast)).toBe(keyOfFile()), WAIT);
  expect(keyOf(right)).toBe(keyOfFile());
  await write(fast.store, ofFast);
  await write(right.store);
  // The holder whose clock has signed with it states the end of its use.
  const { not_after } = (await keys())[before]!;
  expect(Date.parse(not_after!)).toBeGreaterThan(Date.now() + HOUR_MS / 2);
  await expectSound(right);
});

test("a commit of a time before the begin of every key is refused, and writes nothing", async () => {
  const signing = await start();
  const late = repositoryOn(signing.store, records, () => now() - HOUR_MS);
  const commandId = idAt(now() - HOUR_MS);
  await expect(create(late, { commandId })).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: "the commit has a time before the begin of the signing key",
    details: { key_id: keyOf(signing) },
  });
  expect(Object.keys(await keys())).toEqual([keyOf(signing)]);
  // The number of the first entry of the task.
  await create(repositoryOn(signing.store, records));
  await expectSound(signing);
});
