/**
 * Attacks of a program that can write to a store without encryption, and has no key of the fleet: each forged record of a passkey is refused at its use, and
 * found by the scrub.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { entryHash } from "../../../../shared/integrity/chain.ts";
import { enrolmentFacts } from "../../../../shared/integrity/esign/enrolment-act.ts";
import { passkeyIdOf } from "../../../../shared/integrity/esign/passkey.ts";
import type { StoredPasskey } from "../../../../shared/protocol/esign-proof.ts";
import { actOf, appendTenantAudit } from "../../../../shared/records/audit/tenant-audit.ts";
import { signerName } from "../../../../shared/records/esign/signer-acts.ts";
import { decode, decodeChecked, encode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { revokeSigningKey, serviceActor } from "../../../../shared/records/signing/key-registry.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { type EnrolledKey, enrolledKey, signWithKey } from "../../../harness/esign/passkey-person.ts";
import { newProvider, PROVIDER } from "../../../harness/esign/signed-statement.ts";
import { SoftwareAuthenticator } from "../../../harness/esign/software-authenticator.ts";
import { create } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
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
import { appendAll } from "../audit-log/logs.ts";

const BY = { tenant: "default", caller: "human=olga" };
const keys = tenantKeys("default");
let records: SignedRecords;
let ada: EnrolledKey;

beforeEach(async () => {
  records = await openSignedRecords("lmdb");
  await create(records.repository);
  ada = await enrolledKey();
  await signWithKey(records.repository, ada);
});
afterEach(() => records.close());

const idOf = ({ authenticator }: EnrolledKey) => passkeyIdOf(authenticator.credentialId);
const refused = (reason: string) => ({ code: "FORBIDDEN", details: { reason } });
const get = async (key: Bytes) => (await records.raw.read(WRITING, (reader) => reader.get(key)))!;
const recordOf = async (key: EnrolledKey) => decodeChecked<StoredPasskey>(await get(keys.passkey(idOf(key))));
const write = (...rows: readonly (readonly [Bytes, Bytes | null])[]) =>
  records.raw.transact(WRITING, async (tx) => {
    for (const [key, value] of rows) {
      if (value === null) tx.clear(key);
      else tx.set(key, value);
    }
  });

async function found(): Promise<string[]> {
  await scrub(records);
  return (await findingsOf(records.repository)).map(({ kind, details }) => `${kind}: ${details}`);
}

/** Another process of the fleet has read nothing of the chain yet. */
const ofNewProcess = () => repositoryOn(records.store, records);

/** In the process that saw the attack, and in a new one. */
async function expectRefused(key: EnrolledKey, reason: string): Promise<void> {
  for (const repository of [records.repository, ofNewProcess()])
    await expect(signWithKey(repository, key)).rejects.toMatchObject(refused(reason));
}

const revoke = () =>
  records.repository.esignatures.revokePasskey(BY, { passkey_id: idOf(ada), reason: "lost" });

/** The record of a passkey of the attacker, with a provider that it made up. */
async function forgedRecord(changes: Partial<StoredPasskey> = {}): Promise<[EnrolledKey, StoredPasskey]> {
  const forged = await enrolledKey("ada", new SoftwareAuthenticator(), await newProvider());
  const { enrolment, authenticator } = forged;
  const { credentialId: credential_id } = authenticator;
  const of = { passkey_id: idOf(forged), credential_id, enrolment };
  return [forged, { ...(await recordOf(ada)), ...of, sign_count: 0, ...changes }];
}

test("a sound record signs, in each process, and is no finding", async () => {
  await signWithKey(records.repository, ada);
  await signWithKey(ofNewProcess(), ada);
  expect(await found()).toEqual([]);
});

test("a record without an entry, and one that names the entry of another passkey", async () => {
  for (const audit_seq of [99, (await recordOf(ada)).audit_seq]) {
    const [forged, record] = await forgedRecord({ audit_seq });
    await write([keys.passkey(idOf(forged)), encodeChecked(record)]);
    await expectRefused(forged, "passkey_record");
    expect(await found()).toContainEqual(
      `esignature: passkey ${idOf(forged).slice(0, 16)}: no audit entry records its enrolment`,
    );
  }
  await signWithKey(records.repository, ada);
});

test("a record with another key, provider, person or name", async () => {
  const record = await recordOf(ada);
  const other = new SoftwareAuthenticator();
  Object.assign(other, { credentialId: ada.authenticator.credentialId });
  const own = await newProvider();
  const withKey = await enrolledKey("ada", other, own);
  const withProvider = { ...ada, enrolment: { ...record.enrolment, jwk: own.jwk } };
  const cases: readonly [EnrolledKey, Partial<StoredPasskey>][] = [
    [withKey, { enrolment: withKey.enrolment }],
    [withProvider, { enrolment: withProvider.enrolment }],
    [ada, { signer: { issuer: PROVIDER, subject: "grace" } }],
    [ada, { printed_name: "Grace Hopper" }],
    [ada, { rp_id: "evil.example" }],
    [ada, { enrolled_by: "human=grace" }],
    [ada, { enrolled_at: "2020-01-01T00:00:00.000Z" }],
    [ada, { passkey_id: "0".repeat(64) }],
  ];
  for (const [key, changes] of cases) {
    await write([keys.passkey(idOf(ada)), encodeChecked({ ...record, sign_count: 0, ...changes })]);
    await expectRefused(key, "passkey_record");
    expect(
      (await found()).filter((one) => one.startsWith("esignature: passkey ")),
      Object.keys(changes)[0],
    ).not.toEqual([]);
  }
  await write([keys.passkey(idOf(ada)), encodeChecked({ ...record, sign_count: 0 })]);
  await signWithKey(records.repository, ada);
  expect(await found()).toEqual([]);
});

test("the record of another person in the place of the own one", async () => {
  const grace = await enrolledKey("grace");
  await signWithKey(records.repository, grace);
  await write([keys.passkey(idOf(ada)), await get(keys.passkey(idOf(grace)))]);
  await expectRefused(ada, "passkey_record");
  expect(await found()).toContainEqual(
    `esignature: passkey ${idOf(grace).slice(0, 16)}: the record is another one`,
  );
  await signWithKey(records.repository, grace);
});

test("the older record of a revoked passkey, and none", async () => {
  const before = await get(keys.passkey(idOf(ada)));
  await revoke();
  const lacks = `esignature: passkey ${idOf(ada).slice(0, 16)}: the record lacks the revocation of entry 3`;
  for (const [value, finding] of [
    [before, lacks],
    [null, "esignature: the passkey of entry 2 is lost"],
  ] as const) {
    await write([keys.passkey(idOf(ada)), value]);
    await expectRefused(ada, "passkey_revoked");
    expect(await found()).toContainEqual(finding);
  }
});

test("a revocation that no person made", async () => {
  const forged = { revoked_at: new Date().toISOString(), revoked_reason: "lost", revoked_audit_seq: 2 };
  await write([keys.passkey(idOf(ada)), encodeChecked({ ...(await recordOf(ada)), ...forged })]);
  await expectRefused(ada, "passkey_revoked");
  expect(await found()).toContainEqual(
    `esignature: passkey ${idOf(ada).slice(0, 16)}: no audit entry records its revocation`,
  );
});

test("the older record of a revoked passkey, without the entry of the revocation", async () => {
  const rows = await Promise.all([keys.passkey(idOf(ada)), keys.tenantChain()].map(get));
  await revoke();
  const later = await enrolledKey("grace");
  await signWithKey(records.repository, later);
  // The attacker writes the later entries again, so that they follow each other.
  const text = decode<string>(await get(keys.tenantAudit(4)));
  const prev = entryHash(decode<string>(await get(keys.tenantAudit(2))));
  const moved = canonicalText({ ...JSON.parse(text), seq: 3, prev });
  await write(
    [keys.passkey(idOf(ada)), rows[0]!],
    [keys.tenantAudit(3), encode(moved)],
    [keys.tenantAudit(4), null],
    [keys.signature(null, 4), null],
    [keys.tenantChain(), encodeChecked({ seq: 3, hash: entryHash(moved) })],
  );
  // What this process has read before is not there any more.
  await expect(signWithKey(records.repository, ada)).rejects.toMatchObject({ code: "CORRUPT" });
  await expect(signWithKey(ofNewProcess(), ada)).rejects.toMatchObject(refused("passkey_record"));
  // An honest entry after the forged ones does not make them good.
  await expect(signWithKey(ofNewProcess(), await enrolledKey())).resolves.toMatchObject({ version: 1 });
  await expect(signWithKey(ofNewProcess(), ada)).rejects.toMatchObject(refused("passkey_record"));
  expect(await found()).toContainEqual(expect.stringMatching(/^signature: signature_\w+: entry 3/));
});

test.each(["passkey", "person"])(
  "the older records of a revoked %s, without the last entries, the first of which revoked it",
  async (which) => {
    const id = { issuer: PROVIDER, subject: "ada" };
    const rows = [keys.passkey(idOf(ada)), keys.signer(signerName(id)), keys.tenantChain()];
    const before = await Promise.all(rows.map(get));
    if (which === "passkey") await revoke();
    else await records.repository.esignatures.revokeSigner(BY, { ...id, reason: "left" });
    await signWithKey(records.repository, await enrolledKey("grace"));
    await appendAll(records.store);
    const cut = [3, 4].flatMap((seq) => [keys.tenantAudit(seq), keys.signature(null, seq)]);
    await write(
      ...rows.map((key, i) => [key, before[i]!] as const),
      ...cut.map((key) => [key, null] as const),
    );
    await expect(signWithKey(ofNewProcess(), ada)).rejects.toMatchObject(refused("passkey_record"));
    // The start of a scrub is an entry, in the place of the first lost one.
    expect(await found()).toEqual(
      expect.arrayContaining([
        "tenant_audit: the audit log names entry 4, which is after the head",
        "tenant_audit: entry 3: the audit log has another entry at its place",
      ]),
    );
    await signWithKey(ofNewProcess(), await enrolledKey("grace"));
    // Entries in the places of all lost ones do not make the others good.
    await expect(signWithKey(ofNewProcess(), ada)).rejects.toMatchObject(refused("passkey_record"));
    // The next entry is in the log again.
    const later = await enrolledKey("grace");
    await signWithKey(ofNewProcess(), later);
    await appendAll(records.store);
    await signWithKey(ofNewProcess(), later);
  },
);

test.each(["that names a key", "that names none"])(
  "a forged entry of an enrolment, without a signature, %s",
  async (which) => {
    const { seq, hash } = decodeChecked<{ seq: number; hash: string }>(await get(keys.tenantChain()));
    const [forged, record] = await forgedRecord({ audit_seq: seq + 1 });
    const subject = { ...enrolmentFacts(record.signer, record.credential_id, record.enrolment) };
    const honest = JSON.parse(decode<string>(await get(keys.tenantAudit(seq))));
    const { signed_by, ...facts } = { ...honest, seq: seq + 1, prev: hash, subject };
    const entry = canonicalText(which === "that names a key" ? { ...facts, signed_by } : facts);
    await write(
      [keys.passkey(idOf(forged)), encodeChecked(record)],
      [keys.tenantAudit(seq + 1), encode(entry)],
      [keys.tenantChain(), encodeChecked({ seq: seq + 1, hash: entryHash(entry) })],
    );
    await expect(signWithKey(ofNewProcess(), forged)).rejects.toMatchObject(refused("passkey_record"));
    expect(await found()).toContainEqual(expect.stringMatching(/^signature: signature_missing: entry 3/));
  },
);

test("a long chain is read in pages, and damage counts against the passkeys that were enrolled before it", async () => {
  for (let n = 0; n < 450; n += 1)
    await records.store.transact(WRITING, (tx) =>
      appendTenantAudit(tx, "default", [actOf(BY, "alert_ack", Date.now(), { alert: `alert-${n}` })]),
    );
  await signWithKey(records.repository, ada);
  await signWithKey(ofNewProcess(), ada);
  const later = await enrolledKey("grace");
  await signWithKey(records.repository, later);
  const key = keys.tenantAudit(300);
  const sound = await get(key);
  await write([key, encode(decode<string>(sound).replace("alert-", "other-"))]);
  await expect(signWithKey(ofNewProcess(), ada)).rejects.toMatchObject(refused("passkey_record"));
  await signWithKey(ofNewProcess(), later);
  await write([key, null]);
  await expect(signWithKey(ofNewProcess(), ada)).rejects.toMatchObject(refused("passkey_record"));
  await signWithKey(ofNewProcess(), later);
  await write([key, sound]);
  await signWithKey(ofNewProcess(), ada);
});

test("an enrolment that a thief signs with a key that is not registered", async () => {
  const forged = await enrolledKey("ada", new SoftwareAuthenticator(), await newProvider());
  const thief = repositoryOn(storeOfThief(records.raw, newKey()), records);
  await signWithKey(thief, forged);
  await expect(signWithKey(ofNewProcess(), forged)).rejects.toMatchObject(refused("passkey_record"));
  expect(await found()).toContainEqual(expect.stringMatching(/^signature: key_unknown: entry 3/));
});

test("an enrolment that a thief signs with the key of a service, after that key is revoked", async () => {
  const stolen = newKey();
  await register(storeSignedBy(records.raw, stolen), stolen);
  const forged = await enrolledKey("ada", new SoftwareAuthenticator(), await newProvider());
  await signWithKey(repositoryOn(storeOfThief(records.raw, stolen), records), forged);
  // Nothing shows the theft yet.
  await signWithKey(records.repository, forged);
  const nowMs = Date.now();
  const since = new Date(nowMs - 60_000).toISOString();
  await records.store.transact(WRITING, (tx) =>
    revokeSigningKey(
      tx,
      { keyId: stolen.id, since, reason: "compromised" },
      { actor: serviceActor("operator"), nowMs },
    ),
  );
  await expectRefused(forged, "passkey_record");
  // The thief could have hidden a revocation of this one.
  await expectRefused(ada, "passkey_record");
  await signWithKey(records.repository, await enrolledKey());
});

test("the older record of a revoked person", async () => {
  const id = { issuer: PROVIDER, subject: "ada" };
  const before = await get(keys.signer(signerName(id)));
  await records.repository.esignatures.revokeSigner(BY, { ...id, reason: "left" });
  await write([keys.signer(signerName(id)), before]);
  await expectRefused(ada, "revoked");
  expect(await found()).toContainEqual("esignature: the record of a signer lacks the revocation of entry 3");
});

test("a signature is judged with the entry of its passkey", async () => {
  const states = async () =>
    (
      await records.repository.esignatures.list("default", { task_id: "task-1", from_seq: 1, limit: 50 })
    ).signatures.map(({ state }) => state);
  expect(await states()).toEqual(["valid"]);
  await revoke();
  expect(await states()).toEqual(["valid"]);
  const entry = await get(keys.tenantAudit(2));
  await write([keys.tenantAudit(2), await get(keys.tenantAudit(3))]);
  expect(await states()).toEqual(["passkey_unrecorded"]);
  expect(await found()).toContainEqual(expect.stringContaining("esignature: passkey_unrecorded"));
  await write([keys.tenantAudit(2), entry]);
  expect(await states()).toEqual(["valid"]);
});
