/** A stored signature is judged at its place: nothing of it can be changed, and it is none anywhere else. */
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { type EsignPlace, judgeEsignature } from "../../../../shared/integrity/esign/judgement.ts";
import { proofHash } from "../../../../shared/integrity/esign/proof.ts";
import {
  esignNonce,
  esignPayload,
  statementFrom,
  statementHash,
} from "../../../../shared/integrity/esign/statement.ts";
import { ESIGN_PAYLOAD_TYPE, type Esigned, type EsignStatement } from "../../../../shared/protocol/esign.ts";
import type { EsignKey, EsignProof } from "../../../../shared/protocol/esign-proof.ts";

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
    expect(judgeEsignature(signed, placeOf(signed))).toEqual({ problem: null, statement });
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
  });
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
