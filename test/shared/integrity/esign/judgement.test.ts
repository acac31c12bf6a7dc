/** A stored signature is judged at its place: nothing of it can be changed, and it is none anywhere else. */
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { enrolmentFacts } from "../../../../shared/integrity/esign/enrolment-act.ts";
import { type EsignPlace, judgeEsignature } from "../../../../shared/integrity/esign/judgement.ts";
import {
  enrolmentNonce,
  enrolmentPayload,
  fixedSignature,
} from "../../../../shared/integrity/esign/passkey.ts";
import { proofHash } from "../../../../shared/integrity/esign/proof.ts";
import {
  esignNonce,
  esignPayload,
  statementFrom,
  statementHash,
} from "../../../../shared/integrity/esign/statement.ts";
import {
  ESIGN_PAYLOAD_TYPE,
  type Esigned,
  type EsignStatement,
  esignedSchema,
} from "../../../../shared/protocol/esign.ts";
import type { EsignKey, EsignProof } from "../../../../shared/protocol/esign-proof.ts";
import { SoftwareAuthenticator } from "../../../harness/esign/software-authenticator.ts";

const ISSUER = "https://login.example";
const statement: EsignStatement = {
  v: 1,
  subject: {
    ...{ tenant: "default", task: "auth", checkpoint_id: "0199a0c0-0000-7000-8000-000000000001" },
    ...{ version: 2, hash: "a".repeat(64), head: { seq: 7, hash: "b".repeat(64) } },
  },
  signer: { id: { issuer: ISSUER, subject: "ada" }, printed_name: "Ada Lovelace" },
  meaning: "approval",
  signed_at: "2026-11-26T13:00:00.000Z",
  zone: "Europe/London",
  policy: "c".repeat(64),
};
const payload = esignPayload(statement);

async function signedWith(alg: string, changes: Record<string, unknown> = {}): Promise<Esigned> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const claims = { iss: ISSUER, sub: "ada", nonce: esignNonce(payload), ...changes };
  const id_token = await new SignJWT(claims).setProtectedHeader({ alg }).sign(privateKey);
  const jwk = (await exportJWK(publicKey)) as EsignKey;
  const proof = { kind: "oidc", id_token, jwk } as const;
  return { payload_type: ESIGN_PAYLOAD_TYPE, payload: payload.toString("base64"), proof };
}

function placeOf({ proof }: Esigned, changes: Partial<EsignPlace> = {}): EsignPlace {
  const { tenant, task, checkpoint_id, version, hash } = statement.subject;
  const facts = {
    ...{ op: "signature_add", tenant, task, seq: 8, checkpoint_id, version, old_hash: hash },
    ...{ meaning: "approval", signer_issuer: ISSUER, signer_subject: "ada" },
    ...{ statement_hash: statementHash(payload), proof_hash: proofHash(proof) },
  };
  return { tenant, task, checkpoint_id, version, hash, seq: 8, facts, ...changes };
}

const problemOf = (signed: Esigned | null, place: EsignPlace) => judgeEsignature(signed, place).problem;
const good = await signedWith("ES256");

test.each(["RS256", "PS256", "ES256", "ES384", "Ed25519"])(
  "a token that is signed with %s is valid",
  async (alg) => {
    const signed = await signedWith(alg);
    expect(judgeEsignature(signed, placeOf(signed))).toEqual({ problem: null, statement, method: "oidc" });
  },
);

test.each([
  ["tenant", { tenant: "acme" }],
  ["task", { task: "other" }],
  ["checkpoint", { checkpoint_id: "0199a0c0-0000-7000-8000-000000000002" }],
  ["version", { version: 3 }],
] as const)("a signature that is copied to another %s is none there", (_, place) => {
  const facts = { ...placeOf(good).facts, ...place };
  expect(problemOf(good, placeOf(good, { ...place, facts }))).toBe("moved");
});

test("the content, or what the trail records, is another one", () => {
  expect(problemOf(good, placeOf(good, { hash: "d".repeat(64) }))).toBe("content_changed");
  expect(problemOf(good, placeOf(good, { hash: undefined }))).toBeNull();
  expect(problemOf(good, placeOf(good, { facts: undefined }))).toBe("not_recorded");
  const { facts } = placeOf(good);
  for (const name of Object.keys(facts ?? {}))
    expect(problemOf(good, placeOf(good, { facts: { ...facts, [name]: "other" } })), name).toBe(
      "not_recorded",
    );
});

describe("a changed signature", () => {
  test("an edited statement is for another token", () => {
    const edited = esignPayload({ ...statement, meaning: "review" }).toString("base64");
    expect(problemOf({ ...good, payload: edited }, placeOf(good))).toBe("proof_mismatch");
  });

  test("the token of another person, provider or statement", async () => {
    for (const changes of [{ sub: "grace" }, { iss: "https://other.example" }, { nonce: "other" }]) {
      const signed = await signedWith("ES256", changes);
      expect(problemOf(signed, placeOf(signed)), JSON.stringify(changes)).toBe("proof_mismatch");
    }
  });

  test("another key, algorithm or token", async () => {
    const [other, rsa] = [await signedWith("ES256"), await signedWith("RS256")];
    const [header, claims, signature] = String(good.proof.id_token).split(".");
    const none = new UnsecuredJWT({ sub: "ada" }).setIssuer(ISSUER).encode();
    const hs = Buffer.from(JSON.stringify({ alg: "HS256" })).toString("base64url");
    const proofs: Record<string, unknown>[] = [
      { jwk: other.proof.jwk },
      { jwk: rsa.proof.jwk },
      { jwk: { kty: "oct", k: "AAAA" } },
      { id_token: none },
      { id_token: `${hs}.${claims}.${signature}` },
      { id_token: `${header}.${claims}` },
      { id_token: `${header}.${claims}.${signature}.x` },
      { id_token: "" },
    ];
    for (const change of proofs)
      expect(problemOf({ ...good, proof: { ...good.proof, ...change } as EsignProof }, placeOf(good))).toBe(
        "proof_invalid",
      );
  });

  test("the signature for another purpose, or a lost one", () => {
    expect(problemOf({ ...good, payload_type: "application/json" }, placeOf(good))).toBe("statement_invalid");
    expect(problemOf(null, placeOf(good))).toBe("statement_invalid");
    // A kind of proof of a later version cannot be read.
    expect(esignedSchema.safeParse({ ...good, proof: { kind: "later" } }).success).toBe(false);
  });
});

describe("a signature with a passkey", async () => {
  const authenticator = new SoftwareAuthenticator();
  const { credentialId: credential_id, jwk } = authenticator;
  const enrolment = enrolmentPayload({
    ...{ v: 1, tenant: "default", signer: statement.signer, policy: statement.policy },
    ...{ passkey: { credential_id, jwk, rp_id: "localhost" }, enrolled_at: statement.signed_at },
  });
  const login = (await signedWith("ES256", { nonce: enrolmentNonce(enrolment) })).proof;
  const { id_token } = login as { id_token: string };
  const signedFor = (challenge: string): Esigned => {
    const answer = authenticator.answer({ challenge });
    const proof: EsignProof = {
      kind: "webauthn",
      authenticator_data: answer.authenticatorData,
      client_data: answer.clientData,
      signature: fixedSignature(Buffer.from(answer.signature, "base64url"))!.toString("base64url"),
      enrolment: { payload: enrolment.toString("base64"), id_token, jwk: login.jwk as EsignKey },
    };
    return { payload_type: ESIGN_PAYLOAD_TYPE, payload: payload.toString("base64"), proof };
  };
  const signed = signedFor(esignNonce(payload));
  const stored = { payload: enrolment.toString("base64"), id_token, jwk: login.jwk as EsignKey };
  const subject = { ...enrolmentFacts(statement.signer.id, credential_id, stored) };
  const act = (seq: number, action: string, changes: object = {}) => ({
    seq,
    facts: { action, tenant: "default", seq, at: statement.signed_at, subject, ...changes },
  });
  const added = act(5, "passkey_add");
  const enrolledPlace = (of: Esigned, changes: Partial<EsignPlace> = {}): EsignPlace => {
    const place = placeOf(of);
    const facts = { ...place.facts, at: statement.signed_at, passkey_seq: 5 };
    return { ...place, acts: [added], facts, ...changes };
  };

  test("is valid at its place, and none at another one", () => {
    expect(judgeEsignature(signed, enrolledPlace(signed))).toEqual({
      ...{ problem: null, statement, method: "webauthn" },
    });
    for (const place of [{ version: 3 }, { task: "other" }, { tenant: "acme" }]) {
      const facts = { ...enrolledPlace(signed).facts, ...place };
      expect(problemOf(signed, enrolledPlace(signed, { ...place, facts }))).toBe("moved");
    }
    expect(problemOf(signed, enrolledPlace(signed, { hash: "d".repeat(64) }))).toBe("content_changed");
  });

  test("has a passkey that the chain of the tenant records, whole and at its place", () => {
    const judged = (...acts: NonNullable<EsignPlace["acts"]>) =>
      problemOf(signed, enrolledPlace(signed, { acts }));
    expect(judged()).toBe("passkey_unrecorded");
    expect(problemOf(signed, enrolledPlace(signed, { acts: undefined }))).toBe("passkey_unrecorded");
    for (const name of Object.keys(subject))
      expect(judged(act(5, "passkey_add", { subject: { ...subject, [name]: "other" } })), name).toBe(
        "passkey_unrecorded",
      );
    for (const other of [
      act(6, "passkey_add"),
      act(5, "passkey_revoke"),
      act(5, "passkey_add", { tenant: "acme" }),
      act(5, "passkey_add", { seq: 4 }),
      { seq: 5, facts: undefined },
    ])
      expect(judged(other)).toBe("passkey_unrecorded");
    // The stored token, or the key of the provider, is another one than that of the enrolment.
    expect(enrolmentFacts(statement.signer.id, credential_id, { ...stored, id_token: "a.b.c" })).not.toEqual(
      subject,
    );
  });

  test("is valid before the revocation of its passkey, and none after it", () => {
    const revokedAt = (seconds: number, changes: object = {}) => {
      const at = new Date(Date.parse(statement.signed_at) + seconds * 1_000).toISOString();
      return problemOf(
        signed,
        enrolledPlace(signed, { acts: [added, act(6, "passkey_revoke", { at, ...changes })] }),
      );
    };
    expect(revokedAt(3_600)).toBeNull();
    // The clocks of two services differ a little.
    expect(revokedAt(-20)).toBeNull();
    expect(revokedAt(-40)).toBe("passkey_revoked");
    expect(revokedAt(3_600, { at: "no time" })).toBe("passkey_revoked");
    expect(revokedAt(3_600, { subject: { passkey_id: "other" } })).toBe("passkey_unrecorded");
    expect(revokedAt(3_600, { action: "signer_revoke" })).toBe("passkey_unrecorded");
  });

  test("is for one statement, and each part of its proof is recorded", () => {
    const other = signedFor(esignNonce(Buffer.from("other")));
    expect(problemOf(other, enrolledPlace(other))).toBe("proof_mismatch");
    expect(problemOf(signedFor(esignNonce(payload)), enrolledPlace(signed))).toBe("not_recorded");
    const edited = (changes: object) =>
      problemOf({ ...signed, proof: { ...signed.proof, ...changes } as EsignProof }, enrolledPlace(signed));
    expect(edited({ signature: "AAAA" })).toBe("proof_invalid");
    expect(edited({ enrolment: { payload: "e30=", id_token, jwk: login.jwk } })).toBe("proof_invalid");
    expect(edited({ enrolment: { payload: enrolment.toString("base64"), id_token: "a.b.c", jwk } })).toBe(
      "proof_invalid",
    );
  });
});

test("the signature of an elliptic curve has one form of DER", () => {
  const der = (hex: string) => fixedSignature(Buffer.from(hex, "hex"))?.toString("hex") ?? null;
  expect(der("3006020101020102")).toBe(`${"1".padStart(64, "0")}${"2".padStart(64, "0")}`);
  expect(der("300702020080020102")).toBe(`${"80".padStart(64, "0")}${"2".padStart(64, "0")}`);
  for (const odd of [
    "",
    "30",
    "3006020101020102ff",
    "3005020101020102",
    "308106020101020102",
    "3006020181020102",
    "300702020001020102",
    "30060201010201",
    "3006030101020102",
    `3026022101${"00".repeat(32)}020102`,
  ])
    expect(der(odd), odd).toBeNull();
});

test("a statement has one form of bytes", () => {
  expect(statementFrom(payload)).toEqual(statement);
  const forms = [
    JSON.stringify(statement),
    `${canonicalText(statement)}\n`,
    canonicalText({ ...statement, more: 1 }),
    canonicalText({ ...statement, v: 2 }),
    canonicalText({ ...statement, signed_at: "2026-11-26T13:00:00+01:00" }),
    canonicalText({ ...statement, signer: { ...statement.signer, printed_name: "Ada\u202eecalevoL" } }),
    "null",
    "",
  ];
  for (const form of forms) expect(statementFrom(Buffer.from(form)), form).toBeNull();
});
