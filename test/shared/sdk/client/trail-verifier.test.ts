/** Trails as servers answer them, page after page, verified with the keys that the server states. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { keyStateOf, type SigningKeyList } from "../../../../shared/protocol/signing-keys.ts";
import { appendTenantAudit } from "../../../../shared/records/audit/tenant-audit.ts";
import {
  addSuccessor,
  retireSigningKey,
  revokeSigningKey,
  serviceActor,
} from "../../../../shared/records/signing/key-registry.ts";
import { transactAsLast } from "../../../../shared/records/signing/signed-store.ts";
import { TrailVerifier } from "../../../../shared/sdk/client/trail-verifier.ts";
import { KnownKeys } from "../../../../shared/sdk/request/known-keys.ts";
import { create } from "../../../harness/records/records.ts";
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

const TASK = "task-1";

let records: SignedRecords;

beforeEach(async () => {
  records = await openSignedRecords("memory");
  await create(records.repository);
});
afterEach(() => records.close());

async function pageFrom(from: number, { signatures = true } = {}) {
  const query = { task_id: TASK, from_seq: from, limit: 1, signatures };
  const { task, ...page } = await records.repository.audit("default", query);
  return { ...page, head: { seq: task.audit_seq, hash: task.audit_hash } };
}

const verifierWith = (keys: KnownKeys) => new TrailVerifier({ tenant: "default", task: TASK }, keys);

/** Ends the use of the key; the returned repository signs with the next one. */
async function rotated() {
  const next = newKey();
  const change = { actor: serviceActor("writer"), nowMs: Date.now() };
  await transactAsLast(records.raw, records.key, WRITING, async (tx) => {
    await addSuccessor(tx, { before: records.key.id, next, isHeld: () => false }, change);
    await retireSigningKey(tx, records.key.id, change);
  });
  return repositoryOn(storeSignedBy(records.raw, next), records);
}

test("a key that is registered between two pages is read", async () => {
  let reads = 0;
  const keys = new KnownKeys(async () => {
    reads += 1;
    return records.repository.signingKeys.list();
  });
  await create(records.repository);
  const report = await verifierWith(keys).verify(async (from) => {
    if (from === 2) await create(await rotated());
    return pageFrom(from);
  });
  expect(report).toMatchObject({ ok: true, signatures: { signed: 3, unsigned: 0, problems: [] } });
  expect(reads).toBe(2);
  const { keys: listed } = await records.repository.signingKeys.list();
  expect(listed.map(keyStateOf).sort()).toEqual(["active", "retired"]);
});

test("a revoked key signs an act of the operators after its revocation, and states the same time", async () => {
  const [other, nowMs] = [newKey(), Date.now()];
  const store = storeSignedBy(records.raw, other);
  await register(store, other, nowMs);
  const actor = serviceActor("reader");
  const revocation = { keyId: records.key.id, since: undefined, reason: "compromised" } as const;
  await store.transact(WRITING, (tx) => revokeSigningKey(tx, revocation, { actor, nowMs }));
  const act = { action: "scrub_start", actor, at: new Date(nowMs).toISOString(), subject: {} } as const;
  for (const by of [store, storeOfThief(records.raw, records.key)])
    await by.transact(WRITING, (tx) => appendTenantAudit(tx, "default", [act]));
  const keys = new KnownKeys(() => records.repository.signingKeys.list());
  const verifier = new TrailVerifier({ tenant: "default", task: null }, keys);
  const report = await verifier.verify((from) =>
    records.repository.tenantActs.page("default", { from_seq: from, limit: 2, signatures: true }),
  );
  expect(report.signatures?.problems).toEqual([{ seq: 5, problem: "key_revoked" }]);
});

test("keys are read again once for each id that stays unknown, and after a failure", async () => {
  const list: SigningKeyList = { keys: [], signatures_required: true };
  let reads = 0;
  const keys = new KnownKeys(async () => {
    reads += 1;
    if (reads === 1) throw new Error("the reader is away");
    return list;
  });
  await expect(keys.areRequired()).rejects.toThrow("the reader is away");
  expect(await keys.areRequired()).toBe(true);
  for (let call = 1; call <= 3; call += 1) expect(await keys.find(newKey().id.replace(/./g, "0"))).toBeNull();
  expect(reads).toBe(3);
});

test("a trail without signatures is no valid one where they are required", async () => {
  await create(repositoryOn(records.raw, records));
  const keys = new KnownKeys(() => records.repository.signingKeys.list());
  const report = await verifierWith(keys).verify(pageFrom);
  expect(report).toMatchObject({
    ok: false,
    problems: [],
    signatures: { signed: 1, unsigned: 0, problems: [{ seq: 2, problem: "signature_missing" }] },
  });
});

test("an older fleet answers no signatures, and is not asked for keys", async () => {
  const keys = new KnownKeys(async () => {
    throw new Error("there is no such query");
  });
  const report = await verifierWith(keys).verify((from) => pageFrom(from, { signatures: false }));
  expect(report).toMatchObject({ ok: true, entries: 1, signatures: null });
});

test("a problem that a newer reader has shown remains when an older one answers the next page", async () => {
  await create(repositoryOn(records.raw, records));
  await create(repositoryOn(records.raw, records));
  const keys = new KnownKeys(() => records.repository.signingKeys.list());
  const report = await verifierWith(keys).verify((from) => pageFrom(from, { signatures: from <= 2 }));
  expect(report).toMatchObject({
    ok: false,
    signatures: { problems: [{ seq: 2, problem: "signature_missing" }] },
  });
});
