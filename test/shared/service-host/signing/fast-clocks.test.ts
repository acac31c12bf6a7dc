/** The end of the use of a key, after entries of a service whose clock is ahead: a revocation rejects no entry that was committed before it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
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
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
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

/** A service with a key of its own. */
async function start(name: string): Promise<{ readonly store: Store; readonly keyId: string }> {
  const context = { log: testLog, metrics: createMetrics({ ofProcess: false }), clock: systemClock };
  const home = mkdtempSync(join(folder, `${name}-`));
  const signing = await openSigning(context, records.store, { service: name, home });
  open.push(signing);
  return { store: signing.store, keyId: signing.state().key_id! };
}

const keyOf = async (id: string): Promise<StoredSigningKey> =>
  (await records.store.read(WRITING, (reader) => findSigningKey(reader, id)))!;

/** The holder goes over to its next key. Returns the end of the use of the one before, by the clock of the holder. */
async function ended(store: Store, keyId: string): Promise<number> {
  const change = { actor: serviceActor("test"), nowMs: Date.now() };
  await store.transact(WRITING, (tx) => requestRotation(tx, keyId, change));
  const isEnded = async () => expect((await keyOf(keyId)).not_after).not.toBeNull();
  await vi.waitFor(isEnded, WAIT);
  return Date.parse((await keyOf(keyId)).not_after!) - ALLOWED_MS;
}

/** Each adds an entry to a chain of its kind, with a time. */
const CHAINS: readonly (readonly [string, (store: Store, nowMs: number) => Promise<unknown>])[] = [
  ["a task", (store, nowMs) => create(repositoryOn(store, records, () => nowMs))],
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
  ],
  [
    "an access log",
    (store, nowMs) =>
      repositoryOn(store, records, () => nowMs).accessLogs.append("clinic", {
        session: `session-${nowMs}`,
        ...{ n: 1, state: "open", entries: [], lost: 0 },
      }),
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
    const repository = repositoryOn(fast.store, records);
    await scrub({ store: records.store, repository });
    expect(await findingsOf(repository)).toEqual([]);
  },
);

test.each(CHAINS)(
  "a clock that is a year ahead in the chain of %s moves no end of a key",
  async (_, write) => {
    const fast = await start("fast");
    const right = await start("right");
    const fastMs = Date.now() + YEAR_MS;
    await write(fast.store, fastMs);
    await write(right.store, Date.now());
    expect(await ended(right.store, right.keyId)).toBeLessThan(fastMs - ALLOWED_MS);
  },
);
