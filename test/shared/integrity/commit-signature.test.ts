import { expect, test } from "vitest";
import {
  COMMIT_PAYLOAD_TYPE,
  type CommitStatement,
  envelopeOf,
  judgeEntry,
  judgeSignature,
  type SignedEntry,
  signatureIn,
  signStatements,
} from "../../../shared/integrity/commit-signature.ts";
import { newSigningKeyPem, type SigningKey, signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import type { SigningKeyRecord } from "../../../shared/protocol/signing-keys.ts";

const HASHES = ["a".repeat(64), "b".repeat(64), "c".repeat(64)];
const AT = "2026-11-20T10:00:00.000Z";
const STATEMENT: CommitStatement = {
  at: AT,
  checkpoints: [{ hash: "d".repeat(64), id: "01a2b3c4-0000-7000-8000-000000000000", version: 1 }],
  entries: HASHES,
  first: 5,
  task: "t-1",
  tenant: "default",
};

const key = signingKeyFrom(newSigningKeyPem());

function recordOf({ id, publicKey }: SigningKey, changes: Partial<SigningKeyRecord> = {}): SigningKeyRecord {
  return {
    key_id: id,
    algorithm: "ed25519",
    public_key: publicKey,
    purpose: "commits",
    owner: "writer",
    not_before: "2026-11-20T00:00:00.000Z",
    not_after: null,
    revoked_at: null,
    revoked_reason: null,
    replaces: null,
    rotation_requested_at: null,
    ...changes,
  };
}

/** The last entry of the statement. */
const LAST: SignedEntry = {
  ...{ tenant: "default", task: "t-1", seq: 7, hash: HASHES[2]! },
  ...{ facts: { signed_by: key.id, at: AT }, before: AT },
};

async function judgedWith(changes: Partial<SigningKeyRecord>, entry: Partial<SignedEntry> = {}) {
  const judged = await judgeSignature(signStatements(key, [STATEMENT])[0]!, recordOf(key, changes));
  return judgeEntry({ ...LAST, ...entry }, { seq: 7, judged }, true);
}

test("the payload is canonical JSON, so that an auditor needs no library", async () => {
  const { payload } = signStatements(key, [STATEMENT])[0]!;
  expect(Buffer.from(payload).toString()).toBe(
    `{"at":"${AT}","checkpoints":[{"hash":"${"d".repeat(64)}","id":"01a2b3c4-0000-7000-8000-000000000000","version":1}],` +
      `"entries":[${HASHES.map((hash) => `"${hash}"`).join(",")}],"first":5,"task":"t-1","tenant":"default","v":1}`,
  );
});

test("a signature survives its envelope", async () => {
  const signature = signStatements(key, [STATEMENT])[0]!;
  const envelope = envelopeOf(signature);
  expect(envelope).toMatchObject({ payloadType: COMMIT_PAYLOAD_TYPE, signatures: [{ keyid: key.id }] });
  const again = signatureIn(JSON.parse(JSON.stringify(envelope)));
  expect(await judgeSignature(again, recordOf(key))).toMatchObject({
    problem: null,
    verified: { statement: STATEMENT },
  });
  expect(signatureIn({ ...envelope, payloadType: "application/vnd.fleet.esign.v1+json" })).toBeNull();
  expect(
    signatureIn({ ...envelope, signatures: [...envelope.signatures, ...envelope.signatures] }),
  ).toBeNull();
});

test("the validity of the key decides about a signature of its time", async () => {
  expect(await judgedWith({})).toBeNull();
  expect(await judgedWith({ revoked_at: AT })).toBeNull();
  expect(await judgedWith({ revoked_at: "2026-11-20T09:59:59.999Z" })).toBe("key_revoked");
  expect(await judgedWith({ revoked_at: "not a time" })).toBe("key_revoked");
  expect(await judgedWith({ not_after: AT })).toBeNull();
  expect(await judgedWith({ not_after: "2026-11-20T09:59:59.999Z" })).toBe("key_expired");
  expect(await judgedWith({ not_before: "2026-11-20T10:00:00.001Z" })).toBe("key_expired");
  expect(await judgedWith({ purpose: "tree" })).toBe("key_purpose");
});

test("a key counts only under the hash of its public key", async () => {
  const other = signingKeyFrom(newSigningKeyPem());
  expect(await judgedWith({ public_key: other.publicKey })).toBe("key_unknown");
  expect(await judgedWith({ key_id: other.id, public_key: other.publicKey })).toBe("key_unknown");
  const signature = signStatements(key, [STATEMENT])[0]!;
  expect((await judgeSignature(signature, null)).problem).toBe("key_unknown");
});

test("nothing is read from a payload that does not verify", async () => {
  const signature = signStatements(key, [STATEMENT])[0]!;
  const payload = Buffer.from(Buffer.from(signature.payload).toString().replace("t-1", "t-2"));
  const judged = await judgeSignature({ ...signature, payload }, recordOf(key));
  expect(judged).toEqual({ keyId: key.id, problem: "signature_invalid", verified: null });
  expect(await judgeSignature(null, null)).toMatchObject({ problem: "signature_invalid", verified: null });
});

test("signed bytes that are no statement of this version are rejected", async () => {
  for (const text of ["[]", "null", "{}", "not JSON", '{"v":2}']) {
    const payload = Buffer.from(text);
    const signature = key.sign(COMMIT_PAYLOAD_TYPE, payload);
    const judged = await judgeSignature({ keyId: key.id, payload, signature }, recordOf(key));
    expect(judged.problem).toBe("signature_invalid");
  }
});

test("each entry of a commit is judged by the statement alone", async () => {
  const judged = await judgeSignature(signStatements(key, [STATEMENT])[0]!, recordOf(key));
  const after = { seq: 7, judged };
  const entry = { ...LAST, seq: 6, hash: HASHES[1]! };
  const judge = (changes: Partial<SignedEntry>, isRequired = false) =>
    judgeEntry({ ...entry, ...changes }, after, isRequired);
  for (const [i, hash] of HASHES.entries()) expect(judge({ seq: 5 + i, hash })).toBeNull();
  expect(judge({ hash: HASHES[0]! })).toBe("signature_mismatch");
  expect(judge({ facts: { signed_by: "e".repeat(64), at: AT } })).toBe("signature_mismatch");
  expect(judge({ facts: { at: AT } })).toBe("signature_mismatch");
  expect(judge({ task: "t-2" })).toBe("signature_moved");
  expect(judge({ task: null })).toBe("signature_moved");
  expect(judge({ tenant: "other" })).toBe("signature_moved");
  expect(judgeEntry(entry, { seq: 8, judged }, false)).toBe("signature_moved");
  expect(judge({ seq: 4 })).toBe("signature_missing");
  expect(judge({ seq: 4, facts: { at: AT } })).toBe("unsigned");
  expect(judge({ seq: 4, facts: { at: AT } }, true)).toBe("signature_missing");
  expect(judgeEntry(entry, undefined, false)).toBe("signature_missing");
});

test("an unsigned entry is a problem where signatures are required, and as a change of a key", () => {
  const entry = { ...LAST, task: null, facts: { at: AT } };
  expect(judgeEntry(entry, undefined, false)).toBe("unsigned");
  expect(judgeEntry(entry, undefined, true)).toBe("signature_missing");
  expect(judgeEntry({ ...entry, facts: { at: AT, action: "key_revoke" } }, undefined, false)).toBe(
    "signature_missing",
  );
});

test("an entry after the revocation of its key, in the chain that has it, is rejected at any time", async () => {
  const statement = { ...STATEMENT, task: null };
  const judgedIn = async (tenant: string, key_revoke: number) => {
    const [signature] = signStatements(key, [{ ...statement, tenant }]);
    const record = { ...recordOf(key), revoked_at: AT, entries: { key_revoke } };
    const judged = await judgeSignature(signature!, record);
    return judgeEntry({ ...LAST, tenant, task: null }, { seq: 7, judged }, true);
  };
  expect(await judgedIn("default", 6)).toBe("key_revoked");
  expect(await judgedIn("default", 8)).toBeNull();
  expect(await judgedIn("acme", 6)).toBeNull();
});

test("others may have a key: it signs nothing after an entry that is later than its revocation", async () => {
  const before = "2026-11-20T10:00:05.001Z";
  for (const revoked_reason of ["compromised", "lost", "replaced"] as const) {
    const revoked = { revoked_at: "2026-11-20T10:00:05.000Z", revoked_reason };
    expect(await judgedWith(revoked, { before: revoked.revoked_at })).toBeNull();
    const expected = revoked_reason === "replaced" ? null : "time_contradicted";
    expect(await judgedWith(revoked, { before })).toBe(expected);
  }
});

test("an entry behind one of a time after the end of its key is no fault of the key alone", async () => {
  const not_after = "2026-11-20T10:00:30.000Z";
  const behind = (before: string, changes = {}) => judgedWith({ not_after, ...changes }, { before });
  expect(await behind("2026-11-20T10:01:00.000Z")).toBeNull();
  expect(await behind("2026-11-20T10:01:00.001Z")).toBe("time_contradicted");
  expect(await behind("2027-11-20T10:00:00.000Z")).toBe("time_contradicted");
  expect(await behind("no time")).toBeNull();
  // What the entry states itself comes first.
  const late = "2027-11-20T10:00:00.000Z";
  expect(await behind(late, { not_after: "2026-11-20T09:59:59.999Z" })).toBe("key_expired");
  expect(await behind(late, { revoked_at: "2026-11-20T09:59:59.999Z" })).toBe("key_revoked");
});

test("an entry cannot be dated before a revocation, neither in its statement nor in itself", async () => {
  const revoked = { revoked_at: "2026-11-20T10:00:05.000Z" };
  expect(await judgedWith(revoked)).toBeNull();
  // The entry before it is older than the revocation, within the difference of two clocks.
  expect(await judgedWith(revoked, { before: "2026-11-20T10:00:35.000Z" })).toBeNull();
  expect(await judgedWith(revoked, { before: "2026-11-20T10:00:35.001Z" })).toBe("time_contradicted");
  const later = { signed_by: key.id, at: "2026-11-20T10:00:05.001Z" };
  expect(await judgedWith(revoked, { facts: later })).toBe("signature_mismatch");
  expect(await judgedWith(revoked, { seq: 6, hash: HASHES[1]!, facts: later })).toBe("key_revoked");
  expect(await judgedWith(revoked, { seq: 6, hash: HASHES[1]!, facts: { signed_by: key.id } })).toBe(
    "key_revoked",
  );
});
