/** The end of the use of a key, after entries of a service whose clock is ahead: a revocation rejects no entry that was committed before it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { appendTenantAudit } from "../../../../shared/records/audit/tenant-audit.ts";
import { findSigningKey, type StoredSigningKey } from "../../../../shared/records/signing/key-record.ts";
import {
  requestRotation,
  revokeSigningKey,
  serviceActor,
} from "../../../../shared/records/signing/key-registry.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openSigning, type Signing } from "../../../../shared/service-host/signing/signing.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn, WRITING } from "../../../harness/records/signed.ts";

const WAIT = { timeout: 30_000 };
const ALLOWED_MS = 30_000;
const YEAR_MS = 365 * 86_400_000;

let records: TestRecords;
let folder: string;
const open: Signing[] = [];

beforeEach(async () => {
  records = await openTestRecords("memory");
  folder = mkdtempSync(join(tmpdir(), "fleet-fast-clocks-"));
});

afterEach(async () => {
  await Promise.all(open.splice(0).map(({ stop }) => stop()));
  await records.close();
  rmSync(folder, { recursive: true });
});

/** A service with a key and a clock of its own. */
async function start(
  name: string,
  now: () => number = Date.now,
): Promise<{ readonly store: Store; readonly keyId: string }> {
  const clock = { ...systemClock, now };
  const context = { log: testLog, metrics: createMetrics({ ofProcess: false }), clock };
  const home = mkdtempSync(join(folder, `${name}-`));
  const signing = await openSigning(context, records.store, { service: name, home });
  open.push(signing);
  return { store: signing.store, keyId: signing.state().key_id! };
}

const keyOf = async (id: string): Promise<StoredSigningKey> =>
  (await records.store.read(WRITING, (reader) => findSigningKey(reader, id)))!;

/** The holder goes over to its next key. Returns the end of the use of the one before, by the clock of the holder. */
async function ended(store: Store, keyId: string, nowMs = Date.now()): Promise<number> {
  const change = { actor: serviceActor("test"), nowMs };
  await store.transact(WRITING, (tx) => requestRotation(tx, keyId, change));
  const isEnded = async () => expect((await keyOf(keyId)).not_after).not.toBeNull();
  await vi.waitFor(isEnded, WAIT);
  return Date.parse((await keyOf(keyId)).not_after!) - ALLOWED_MS;
}

/** Of a scrub, in both tenants. */
async function findings(store: Store): Promise<readonly string[]> {
  const repository = repositoryOn(store, records);
  await scrub({ store: records.store, repository });
  const found = ["default", "clinic"].map(async (tenant) => {
    const page = await repository.scrubFindings(tenant, { limit: LIMITS.scrub_findings_limit_max });
    return page.findings.map(({ details }) => {
      const [code, entry] = details.split(": ");
      return `${code} in ${tenant}: ${entry}`;
    });
  });
  return (await Promise.all(found)).flat();
}

/** Each adds an entry to a chain of its kind, with a time. The place is that of the second one. */
const CHAINS: readonly (readonly [
  chain: string,
  write: (store: Store, nowMs: number) => Promise<unknown>,
  second: string,
])[] = [
  ["a task", (store, nowMs) => create(repositoryOn(store, records, () => nowMs)), "default: entry 3"],
  [
    "a tenant",
    (store, nowMs) =>
      store.transact(WRITING, (tx) =>
        appendTenantAudit(tx, "clinic", [
          {
            action: "scrub_start",
            actor: serviceActor("reader"),
            at: new Date(nowMs).toISOString(),
            subject: {},
          },
        ]),
      ),
    "clinic: entry 2",
  ],
  [
    "an access log",
    (store, nowMs) =>
      repositoryOn(store, records, () => nowMs).accessLogs.append("clinic", {
        session: `session-${nowMs}`,
        ...{ n: 1, state: "open", entries: [], lost: 0 },
      }),
    "clinic: entry 2",
  ],
];

test.each(CHAINS)(
  "an entry that follows one of a fast clock in the chain of %s stays valid",
  async (_, write) => {
    const fast = await start("fast");
    const right = await start("right");
    const fastMs = Date.now() + 25_000;
    await write(fast.store, fastMs);
    await write(right.store, Date.now());
    expect(await ended(right.store, right.keyId)).toBeGreaterThanOrEqual(fastMs);
    const revocation = { keyId: right.keyId, since: undefined, reason: "compromised" } as const;
    const change = { actor: serviceActor("test"), nowMs: Date.now() };
    await fast.store.transact(WRITING, (tx) => revokeSigningKey(tx, revocation, change));
    expect(Date.parse((await keyOf(right.keyId)).revoked_at!)).toBeGreaterThanOrEqual(fastMs);
    expect(await findings(fast.store)).toEqual([]);
  },
);

test.each(CHAINS)(
  "what a holder has written stays valid after it followed a clock beyond the limit in the chain of %s",
  async (_, write, second) => {
    const nowMs = Date.now();
    const holderMs = nowMs + 3_000;
    const fast = await start("fast");
    const holder = await start("holder", () => holderMs);
    await create(repositoryOn(holder.store, records, () => holderMs));
    // No further ahead of the holder than clocks may be, and further ahead of the service that revokes.
    const fastMs = nowMs + ALLOWED_MS + 2_000;
    await write(fast.store, fastMs);
    await write(holder.store, holderMs);
    expect(await ended(holder.store, holder.keyId, nowMs)).toBeGreaterThanOrEqual(fastMs);
    const revocation = { keyId: holder.keyId, since: undefined, reason: "compromised" } as const;
    await fast.store.transact(WRITING, (tx) =>
      revokeSigningKey(tx, revocation, { actor: serviceActor("test"), nowMs }),
    );
    // No more than for a clock at the limit: the entry behind the one of the fast clock is rejected alone.
    expect(Date.parse((await keyOf(holder.keyId)).revoked_at!)).toBe(nowMs + ALLOWED_MS);
    expect(await findings(fast.store)).toEqual([`time_contradicted in ${second}`]);
  },
);

test.each(CHAINS)(
  "a clock that is a year ahead in the chain of %s moves no end of a key, and what follows it is no fault of that key",
  async (_, write, second) => {
    const fast = await start("fast");
    const right = await start("right");
    const fastMs = Date.now() + YEAR_MS;
    await create(repositoryOn(right.store, records));
    await write(fast.store, fastMs);
    await write(right.store, Date.now());
    expect(await ended(right.store, right.keyId)).toBeLessThan(fastMs - ALLOWED_MS);
    expect(await findings(fast.store)).toEqual([`time_contradicted in ${second}`]);
  },
);
