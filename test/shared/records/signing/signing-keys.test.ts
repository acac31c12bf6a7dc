/** What operators may do with signing keys, and what is refused. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { OPERATOR } from "../../../harness/records/records.ts";
import {
  newKey,
  openSignedRecords,
  register,
  repositoryOn,
  type SignedRecords,
  storeSignedBy,
} from "../../../harness/records/signed.ts";

const REVOKED = { since: undefined, reason: "compromised" } as const;

let records: SignedRecords;
let nowMs: number;

beforeEach(async () => {
  nowMs = Date.now();
  records = await openSignedRecords("memory", () => nowMs);
});
afterEach(() => records.close());

test("a key is listed with its facts, and without those of the store", async () => {
  const { keys } = await records.repository.signingKeys.list();
  expect(keys).toEqual([
    {
      key_id: records.key.id,
      algorithm: "ed25519",
      public_key: records.key.publicKey,
      purpose: "commits",
      owner: "writer",
      not_before: new Date(nowMs - 30_000).toISOString(),
      not_after: null,
      revoked_at: null,
      revoked_reason: null,
      replaces: null,
      rotation_requested_at: null,
    },
  ]);
});

test("operators of other tenants change nothing", async () => {
  const { signingKeys } = records.repository;
  const by = { ...OPERATOR, tenant: "clinic" };
  await expect(signingKeys.rotate(by, {})).rejects.toMatchObject({ code: "FORBIDDEN" });
  const revoking = signingKeys.revoke(by, { key_id: records.key.id, ...REVOKED });
  await expect(revoking).rejects.toMatchObject({ code: "FORBIDDEN" });
  const { keys } = await signingKeys.list();
  expect(keys).toMatchObject([{ revoked_at: null, rotation_requested_at: null }]);
});

test("a request for a rotation is recorded once", async () => {
  const { signingKeys, tenantActs } = records.repository;
  for (let request = 1; request <= 2; request += 1) {
    const { keys } = await signingKeys.rotate(OPERATOR, { key_id: records.key.id });
    expect(keys).toMatchObject([{ key_id: records.key.id }]);
  }
  const { entries } = await tenantActs.page("default", { from_seq: 1, limit: 10, signatures: true });
  expect(entries.map(({ entry }) => JSON.parse(entry))).toMatchObject([
    { action: "key_add", actor: { id: "writer", type: "service" } },
    {
      action: "key_rotate",
      actor: { id: OPERATOR.caller, type: "human" },
      subject: { key_id: records.key.id },
    },
  ]);
});

test("only keys in use are replaced", async () => {
  const rotating = records.repository.signingKeys.rotate(OPERATOR, { key_id: newKey().id });
  await expect(rotating).rejects.toMatchObject({ code: "CONFLICT" });
});

test("a key without a holder is revoked by a service with another key", async () => {
  const other = newKey();
  const store = storeSignedBy(records.raw, other);
  await register(store, other, nowMs);
  const { signingKeys } = repositoryOn(store, records, () => nowMs);
  const since = new Date(nowMs - 1_000).toISOString();
  const { key } = await signingKeys.revoke(OPERATOR, { key_id: records.key.id, since, reason: "lost" });
  expect(key).toMatchObject({ revoked_at: since, revoked_reason: "lost", not_after: null });
  const later = { key_id: records.key.id, ...REVOKED };
  expect(await signingKeys.revoke(OPERATOR, later)).toMatchObject({ key: { revoked_at: since } });
  const earlier = new Date(nowMs - 2_000).toISOString();
  const again = await signingKeys.revoke(OPERATOR, { ...later, since: earlier });
  expect(again).toMatchObject({ key: { revoked_at: earlier, revoked_reason: "compromised" } });
});

test("a revocation of an unknown key, and one since a time in the future, are refused", async () => {
  const { signingKeys } = records.repository;
  const unknown = signingKeys.revoke(OPERATOR, { key_id: newKey().id, ...REVOKED });
  await expect(unknown).rejects.toMatchObject({ code: "NOT_FOUND" });
  const since = new Date(nowMs + 60_000).toISOString();
  const early = signingKeys.revoke(OPERATOR, { key_id: records.key.id, ...REVOKED, since });
  await expect(early).rejects.toMatchObject({ code: "INVALID", fields: [{ path: "since" }] });
});
