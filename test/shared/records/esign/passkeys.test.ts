/** The registry of passkeys in the store: its limit, the counts of authenticators, and an end that is for good. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { passkeyIdOf } from "../../../../shared/integrity/esign/passkey.ts";
import type { SignerRevocation } from "../../../../shared/protocol/esign-signer.ts";
import { PASSKEYS_OF_SIGNER } from "../../../../shared/records/esign/passkeys.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { type EnrolledKey, enrolledKey, signWithKey } from "../../../harness/esign/passkey-person.ts";
import { create, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { WRITING } from "../../../harness/records/signed.ts";

const BY = { tenant: "default", caller: "human=ada" };
let records: TestRecords;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  await create(records.repository);
});
afterEach(() => records.close());

const sign = (key: EnrolledKey, count?: number) => signWithKey(records.repository, key, count);
const signers = async (limit = 50) => records.repository.esignatures.signers("default", { limit });
const refused = (reason: string) => ({ code: "FORBIDDEN", details: { reason } });
const idOf = ({ authenticator }: EnrolledKey) => passkeyIdOf(authenticator.credentialId);
const revoke = (key: EnrolledKey, reason: SignerRevocation = "lost") =>
  records.repository.esignatures.revokePasskey(BY, { passkey_id: idOf(key), reason });

async function signedKeys(count: number): Promise<EnrolledKey[]> {
  const keys = await Promise.all(Array.from({ length: count }, () => enrolledKey()));
  for (const key of keys) await sign(key);
  return keys;
}

test("a person has a limited number of passkeys, without the revoked ones", async () => {
  const keys = await signedKeys(PASSKEYS_OF_SIGNER);
  const more = await enrolledKey();
  await expect(sign(more)).rejects.toMatchObject({ code: "TOO_LARGE" });
  await sign(keys[0]!);
  const listed = async () => (await signers()).signers[0]?.passkeys?.map(({ passkey_id }) => passkey_id);
  expect(await listed()).toEqual(keys.map(idOf));
  const { esignatures } = records.repository;
  expect(await esignatures.enrolmentOf("default", more.authenticator.credentialId)).toBeNull();
  await revoke(keys[3]!);
  await sign(more);
  expect(await listed()).toEqual([...keys.map(idOf), idOf(more)]);
  await expect(sign(await enrolledKey())).rejects.toMatchObject({ code: "TOO_LARGE" });
});

test("the list of a person leaves out the oldest revoked passkeys, and never one in use", async () => {
  const kept = await enrolledKey();
  await sign(kept);
  const revoked: EnrolledKey[] = [];
  for (let n = 0; n < 105; n += 1) {
    const key = await enrolledKey();
    await sign(key);
    await revoke(key);
    revoked.push(key);
  }
  const last = await enrolledKey();
  await sign(last);
  const [ada] = (await signers()).signers;
  const ids = ada?.passkeys?.map(({ passkey_id }) => passkey_id) ?? [];
  expect(ids).toHaveLength(100);
  expect(ids).toEqual([idOf(kept), ...revoked.slice(-98).map(idOf), idOf(last)]);
  // One that is not listed is revoked for good too.
  await expect(sign(revoked[0]!)).rejects.toMatchObject(refused("passkey_revoked"));
});

test("a page of people with many passkeys is shorter, and the pages have all of them", async () => {
  const people = Array.from({ length: 14 }, (_, n) => `person-${n}`);
  for (const subject of people)
    for (let n = 0; n < PASSKEYS_OF_SIGNER; n += 1) await sign(await enrolledKey(subject));
  const seen: string[] = [];
  const sizes: number[] = [];
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    const page = await records.repository.esignatures.signers("default", { limit: 50, cursor });
    seen.push(...page.signers.map(({ subject }) => subject));
    sizes.push(page.signers.length);
    cursor = page.cursor;
  }
  expect(seen.toSorted()).toEqual(people.toSorted());
  expect(sizes).toEqual([13, 1]);
});

test("a count rises, unless the authenticator has never counted", async () => {
  const [silent, counting] = [await enrolledKey(), await enrolledKey()];
  await sign(silent, 0);
  await sign(silent, 0);
  await sign(counting, 5);
  await sign(counting, 6);
  for (const count of [6, 5, 0])
    await expect(sign(counting, count)).rejects.toMatchObject(refused("counter"));
  await sign(counting, 7);
});

test("a passkey is of one person and of one tenant, and a revocation is for good", async () => {
  const { esignatures } = records.repository;
  const mine = await enrolledKey();
  await sign(mine);
  const taken = await enrolledKey("grace", mine.authenticator);
  await expect(sign(taken)).rejects.toMatchObject(refused("passkey"));
  expect(await esignatures.enrolmentOf("acme", mine.authenticator.credentialId)).toBeNull();
  const { passkey } = await revoke(mine);
  expect(passkey).toMatchObject({ revoked_reason: "lost", audit_seq: 1, revoked_audit_seq: 2 });
  // A second revocation changes nothing, and has no second entry.
  expect((await revoke(mine, "other")).passkey).toEqual(passkey);
  await expect(sign(mine)).rejects.toMatchObject(refused("passkey_revoked"));
  await expect(
    esignatures.revokePasskey({ ...BY, tenant: "acme" }, { passkey_id: idOf(mine), reason: "lost" }),
  ).rejects.toMatchObject({ code: "NOT_FOUND" });
  const { entries } = await records.repository.tenantActs.page("default", {
    ...{ from_seq: 1, limit: 50, signatures: false },
  });
  expect(entries.map(({ entry }) => JSON.parse(entry).action)).toEqual(["passkey_add", "passkey_revoke"]);
});

test.each(["lost", "damaged", "other"] as const)(
  "a passkey with a record that is %s is revoked by its enrolment in the audit chain",
  async (which) => {
    const [mine, ...others] = await signedKeys(PASSKEYS_OF_SIGNER);
    const at = (key: EnrolledKey) => tenantKeys("default").passkey(idOf(key));
    await records.store.transact(WRITING, async (tx) => {
      const value = (await tx.get(at(mine!)))!;
      if (which === "lost") tx.clear(at(mine!));
      if (which === "damaged") tx.set(at(mine!), value.slice(0, -1));
      if (which === "other") tx.set(at(mine!), (await tx.get(at(others[0]!)))!);
    });
    const more = await enrolledKey();
    await expect(sign(more)).rejects.toMatchObject({ code: "TOO_LARGE" });
    const { passkey } = await revoke(mine!);
    expect(passkey).toMatchObject({
      ...{ passkey_id: idOf(mine!), credential_id: null, printed_name: null, enrolled_by: "human=ada" },
      ...{ audit_seq: 1, revoked_reason: "lost", revoked_audit_seq: PASSKEYS_OF_SIGNER + 1 },
    });
    expect((await revoke(mine!, "other")).passkey).toEqual(passkey);
    await sign(more);
    await sign(others[0]!);
    await expect(sign(mine!)).rejects.toMatchObject(
      which === "damaged" ? { code: "CORRUPT" } : refused("passkey_revoked"),
    );
    await expect(sign(await enrolledKey())).rejects.toMatchObject({ code: "TOO_LARGE" });
  },
);
