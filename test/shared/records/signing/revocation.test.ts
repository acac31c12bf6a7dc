/** From when on a revocation counts, and what becomes of commits that are made at the same moment. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { appendTenantAudit } from "../../../../shared/records/audit/tenant-audit.ts";
import {
  endUseBefore,
  type Revocation,
  retireSigningKey,
  revokeSigningKey,
  serviceActor,
} from "../../../../shared/records/signing/key-registry.ts";
import { signedStore } from "../../../../shared/records/signing/signed-store.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { create, ENGINES, OPERATOR } from "../../../harness/records/records.ts";
import {
  newKey,
  openSignedRecords,
  register,
  repositoryOn,
  type SignedRecords,
  storeOfThief,
  storeSignedBy,
  WRITING,
} from "../../../harness/records/signed.ts";
import { signatureCodes } from "./tampered-store.ts";

const SECOND_MS = 1_000;

let records: SignedRecords;
let nowMs: number;
/** Of a service with another key. */
let other: Store;

beforeEach(() => open("memory"));
afterEach(() => records.close());

async function open(engine: (typeof ENGINES)[number]): Promise<void> {
  nowMs = Date.now();
  records = await openSignedRecords(engine, () => nowMs);
  const key = newKey();
  other = storeSignedBy(records.raw, key);
  await register(other, key, nowMs);
}

const timeAfter = (seconds: number) => new Date(nowMs + seconds * SECOND_MS).toISOString();
const change = () => ({ actor: serviceActor("reader"), nowMs });
const now = () => nowMs;
const codes = () => signatureCodes({ raw: records.raw, repository: repositoryOn(other, records, now) }, now);

const revocation = (changes: Partial<Revocation> = {}): Revocation => ({
  ...{ keyId: records.key.id, since: undefined, reason: "compromised" },
  ...changes,
});
const revoked = (changes: Partial<Revocation> = {}) =>
  other.transact(WRITING, (tx) => revokeSigningKey(tx, revocation(changes), change()));

async function acts(
  tenant = "default",
): Promise<readonly { readonly at: string; readonly action: string; readonly subject: object }[]> {
  const page = await records.repository.tenantActs.page(tenant, {
    from_seq: 1,
    limit: 50,
    signatures: false,
  });
  return page.entries.map(({ entry }) => JSON.parse(entry));
}

/** The act of an operator, as a store signs it. */
const act = (store: Store, at: string) =>
  store.transact(WRITING, (tx) =>
    appendTenantAudit(tx, "default", [
      { action: "scrub_start", actor: serviceActor("reader"), at, subject: {} },
    ]),
  );

test("a key that others may have is revoked at the time of the entry", async () => {
  for (const reason of ["compromised", "lost"] as const) {
    const key = newKey();
    await register(storeSignedBy(records.raw, key), key, nowMs);
    nowMs += SECOND_MS;
    const { value } = await revoked({ keyId: key.id, reason });
    const { at } = (await acts()).at(-1)!;
    expect(value).toMatchObject({ revoked_at: timeAfter(0), revoked_reason: reason });
    expect(at).toBe(value.revoked_at);
  }
});

test("a key that was replaced as planned counts as much longer as clocks may differ", async () => {
  const { value } = await revoked({ reason: "replaced" });
  expect(value).toMatchObject({ revoked_at: timeAfter(30) });
});

test("a key turns out to be compromised after it was replaced: the allowance ends at the earlier revocation", async () => {
  await revoked({ reason: "replaced" });
  const replacedAt = timeAfter(0);
  nowMs += 3_600 * SECOND_MS;
  const { value } = await revoked();
  expect(value).toMatchObject({ revoked_at: replacedAt, revoked_reason: "compromised" });
  expect(await codes()).toEqual([]);
});

test("a key was replaced since an earlier time, and is found stolen later", async () => {
  const since = timeAfter(-60);
  await revoked({ reason: "replaced", since });
  nowMs += 3_600 * SECOND_MS;
  const { value } = await revoked();
  const stated = { key_id: records.key.id, revoked_at: since };
  expect(value).toMatchObject({ ...stated, revoked_reason: "compromised" });
  const changes = (await acts()).filter(({ action }) => action === "key_revoke");
  expect(changes.map(({ subject }) => subject)).toEqual([
    { ...stated, reason: "replaced" },
    { ...stated, reason: "compromised" },
  ]);
  // Both entries are before the entry that a thief appends, and the first one decides.
  expect(value.entries.key_revoke_first).toBe(value.entries.key_revoke! - 1);
  const { signingKeys } = repositoryOn(other, records, now);
  expect((await signingKeys.list()).keys).toContainEqual(expect.objectContaining(stated));
});

test.each([
  ["compromised", "compromised"],
  ["compromised", "lost"],
  ["compromised", "replaced"],
  ["lost", "lost"],
  ["lost", "replaced"],
  ["replaced", "replaced"],
] as const)("after a revocation as %s, one as %s changes nothing", async (first, second) => {
  const { value: known } = await revoked({ reason: first, since: timeAfter(-60) });
  const before = await acts();
  nowMs += 3_600 * SECOND_MS;
  for (const since of [undefined, timeAfter(-3_660), timeAfter(-3_600)])
    expect((await revoked({ reason: second, since })).value).toEqual(known);
  expect(await acts()).toEqual(before);
});

test("the earlier time of a second revocation counts, and the stronger reason of both", async () => {
  await revoked({ reason: "replaced", since: timeAfter(-60) });
  const steps = [
    { reason: "lost", since: timeAfter(-30), becomes: [timeAfter(-60), "lost"] },
    { reason: "replaced", since: timeAfter(-90), becomes: [timeAfter(-90), "lost"] },
    { reason: "compromised", since: timeAfter(-120), becomes: [timeAfter(-120), "compromised"] },
  ] as const;
  for (const { reason, since, becomes } of steps) {
    const { revoked_at, revoked_reason } = (await revoked({ reason, since })).value;
    expect([revoked_at, revoked_reason]).toEqual(becomes);
  }
});

test("a weaker reason with an earlier time gives a thief no allowance back", async () => {
  await create(records.repository);
  nowMs += 2 * SECOND_MS;
  await revoked();
  nowMs += 20 * SECOND_MS;
  await create(repositoryOn(other, records, now));
  nowMs -= 21 * SECOND_MS;
  await create(repositoryOn(storeOfThief(records.raw, records.key), records, now));
  nowMs += 60 * SECOND_MS;
  expect(await codes()).toEqual(["time_contradicted"]);
  // The time that the thief has stated. Within the allowance, its entry would follow no later one.
  const { value } = await revoked({ reason: "replaced", since: timeAfter(-60) });
  expect(value).toMatchObject({ revoked_at: timeAfter(-60), revoked_reason: "compromised" });
  expect(await codes()).toEqual(["time_contradicted"]);
});

test("a second revocation pardons no entry after the first one", async () => {
  await revoked({ reason: "replaced" });
  await act(storeOfThief(records.raw, records.key), timeAfter(0));
  expect(await codes()).toEqual(["key_revoked"]);
  nowMs += 3_600 * SECOND_MS;
  await revoked();
  expect(await codes()).toEqual(["key_revoked"]);
});

test.each([
  [20, 20],
  [32, 30],
])("a second revocation still follows the clock of a holder that was %i s ahead", async (ahead, after) => {
  const retired = { actor: serviceActor("writer"), nowMs: nowMs + ahead * SECOND_MS };
  await other.transact(WRITING, (tx) => retireSigningKey(tx, records.key.id, retired));
  await revoked({ reason: "replaced" });
  const endedAt = timeAfter(after);
  nowMs += 3_600 * SECOND_MS;
  expect((await revoked()).value).toMatchObject({ revoked_at: endedAt, revoked_reason: "compromised" });
});

test.each([
  [20, 20],
  [-20, 0],
  // No honest holder states such an end. It wins what a possible end wins.
  [31, 30],
  [3_600, 30],
])("a holder whose clock is %i s ahead has ended its use: revoked %i s after now", async (ahead, after) => {
  const retired = { actor: serviceActor("writer"), nowMs: nowMs + ahead * SECOND_MS };
  await other.transact(WRITING, (tx) => retireSigningKey(tx, records.key.id, retired));
  const { value } = await revoked();
  expect(value).toMatchObject({ revoked_at: timeAfter(after) });
  expect((await acts()).at(-1)).toMatchObject({ action: "key_revoke", at: timeAfter(after) });
});

test("the use of a key ends before its revocation, if the holder does not end it", async () => {
  const { signingKeys } = repositoryOn(other, records, () => nowMs);
  const wanted = { key_id: records.key.id, since: undefined, reason: "compromised" } as const;
  const { key } = await signingKeys.revoke(OPERATOR, wanted);
  expect(key).toMatchObject({ not_after: timeAfter(30), revoked_at: timeAfter(0) });
  const actions = (await acts()).map(({ action }) => action);
  expect(actions.slice(-3)).toEqual(["key_rotate", "key_retire", "key_revoke"]);
  expect(await codes()).toEqual([]);
});

test("a service ends the use of its own key with no signature of the same key", async () => {
  const ending = records.store.transact(WRITING, (tx) => endUseBefore(tx, revocation(), change()));
  await expect(ending).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test.each(ENGINES)("%s: a commit in flight is made again with the next key", async (engine) => {
  await records.close();
  await open(engine);
  const next = newKey();
  await register(storeSignedBy(records.raw, next), next, nowMs);
  let key = records.key;
  const renew = async () => {
    key = next;
  };
  const store = signedStore(records.raw, {
    get key() {
      return key;
    },
    renew,
  });
  const [isRunning, isRevoked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const at = timeAfter(1);
  const committed = store.transact({ ...WRITING, deadlineMs: 60_000 }, async (tx) => {
    const actor = serviceActor("reader");
    await appendTenantAudit(tx, "clinic", [{ action: "scrub_start", actor, at, subject: {} }]);
    isRunning.resolve();
    await isRevoked.promise;
  });
  await isRunning.promise;
  await revoked();
  isRevoked.resolve();
  await committed;
  expect(await acts("clinic")).toMatchObject([{ at, signed_by: next.id }]);
});

test("a thief of the key changes keys after the revocation, at the same time", async () => {
  const thief = storeOfThief(records.raw, records.key);
  await revoked();
  await act(thief, timeAfter(0));
  expect(await codes()).toEqual(["key_revoked"]);
});

test("a thief of the key continues a chain with newer entries, within the difference of clocks", async () => {
  await create(records.repository);
  await revoked();
  nowMs += SECOND_MS;
  await create(repositoryOn(other, records, now));
  expect(await codes()).toEqual([]);
  nowMs -= SECOND_MS;
  await create(repositoryOn(storeOfThief(records.raw, records.key), records, now));
  nowMs += SECOND_MS;
  expect(await codes()).toEqual(["time_contradicted"]);
});

test("a thief of a key whose use has ended signs with it, at the present time and at one before the end", async () => {
  await create(records.repository);
  const thief = repositoryOn(storeOfThief(records.raw, records.key), records, now);
  await other.transact(WRITING, (tx) => retireSigningKey(tx, records.key.id, change()));
  nowMs += 3_600 * SECOND_MS;
  await create(repositoryOn(other, records, now));
  expect(await codes()).toEqual([]);
  await create(thief);
  expect(await codes()).toEqual(["key_expired"]);
  nowMs += SECOND_MS;
  await create(repositoryOn(other, records, now));
  nowMs -= 3_600 * SECOND_MS;
  await create(thief);
  nowMs += 3_600 * SECOND_MS;
  expect([...(await codes())].sort()).toEqual(["key_expired", "time_contradicted"]);
});
