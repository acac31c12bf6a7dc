/** The registry of passkeys in the store: its limit, the counts of authenticators, and an end that is for good. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { SignerRevocation } from "../../../../shared/protocol/esign-signer.ts";
import { PASSKEYS_OF_SIGNER, type UsedPasskey } from "../../../../shared/records/esign/passkeys.ts";
import { signedBody, statementOf } from "../../../harness/esign/signed-statement.ts";
import { create, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";

const BY = { tenant: "default", caller: "human=ada" };
let records: TestRecords;
let statements: number;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  statements = 0;
  await create(records.repository);
});
afterEach(() => records.close());

/** A verified signature of the person, as the writer adds it. */
async function sign(credentialId: string, signCount: number, subject = "ada") {
  const { esignatures } = records.repository;
  statements += 1;
  const reason = `statement ${statements}`;
  const statement = await statementOf(records.repository, { task: "task-1", subject, changes: { reason } });
  const { payload, proof } = await signedBody(statement);
  const enrolment = { payload: `${credentialId}-${subject}`, id_token: "a.b.c", jwk: { kty: "EC" } };
  const passkey: UsedPasskey = { credentialId, rpId: "localhost", enrolment, signCount };
  const caller = {
    actor: { tenant: BY.tenant, agent: BY.caller, task: "task-1" },
    commandId: `019bef72-3d00-7a31-b5c4-${String(statements).padStart(12, "0")}`,
    fence: undefined,
    requestHash: reason,
    traceparent: undefined,
  };
  const signed = { payload_type: "application/vnd.fleet.esign.v1+json", payload, proof };
  return esignatures.add(caller, { statement, signed, passkey });
}

const signers = async () => (await records.repository.esignatures.signers("default", { limit: 50 })).signers;
const refused = (reason: string) => ({ code: "FORBIDDEN", details: { reason } });

test("a person has a limited number of passkeys, and the refused one is not kept", async () => {
  for (let n = 0; n < PASSKEYS_OF_SIGNER; n += 1) await sign(`key-${n}`, 0);
  await expect(sign("one-more", 0)).rejects.toMatchObject({ code: "TOO_LARGE" });
  await sign("key-0", 0);
  const [ada] = await signers();
  expect(ada?.passkeys?.map(({ credential_id }) => credential_id)).toEqual(
    Array.from({ length: PASSKEYS_OF_SIGNER }, (_, n) => `key-${n}`),
  );
  expect(await records.repository.esignatures.enrolmentOf("default", "one-more")).toBeNull();
});

test("a count rises, unless the authenticator has never counted", async () => {
  await sign("silent", 0);
  await sign("silent", 0);
  await sign("counting", 5);
  await sign("counting", 6);
  for (const count of [6, 5, 0])
    await expect(sign("counting", count)).rejects.toMatchObject(refused("counter"));
  await sign("counting", 7);
});

test("a passkey is of one person and of one tenant, and a revocation is for good", async () => {
  const { esignatures } = records.repository;
  await sign("mine", 0);
  await expect(sign("mine", 0, "grace")).rejects.toMatchObject(refused("passkey"));
  expect(await esignatures.enrolmentOf("acme", "mine")).toBeNull();
  const [ada] = await signers();
  const { passkey_id } = ada!.passkeys![0]!;
  const revoke = (reason: SignerRevocation) => esignatures.revokePasskey(BY, { passkey_id, reason });
  const { passkey } = await revoke("lost");
  expect(passkey).toMatchObject({ revoked_reason: "lost" });
  // A second revocation changes nothing, and has no second entry.
  expect((await revoke("other")).passkey).toEqual(passkey);
  await expect(sign("mine", 0)).rejects.toMatchObject(refused("passkey_revoked"));
  await expect(
    esignatures.revokePasskey({ ...BY, tenant: "acme" }, { passkey_id, reason: "lost" }),
  ).rejects.toMatchObject({ code: "NOT_FOUND" });
  const { entries } = await records.repository.tenantActs.page("default", {
    ...{ from_seq: 1, limit: 50, signatures: false },
  });
  expect(entries.map(({ entry }) => JSON.parse(entry).action)).toEqual(["passkey_add", "passkey_revoke"]);
});
