/** Both verifiers of bundles judge the proofs by passkeys alike: of each kind of key, and changed in many ways. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import { enrolmentNonce, enrolmentPayload, fixedSignature } from "../../../shared/integrity/esign/passkey.ts";
import { type JudgedProof, judgeProof } from "../../../shared/transfer/bundle/offline/bundle-proofs.ts";
import { exactObject } from "../../../shared/transfer/bundle/offline/exact-json.ts";
import {
  type Asked,
  type PasskeyKind,
  SoftwareAuthenticator,
} from "../../harness/esign/software-authenticator.ts";
import { seeded } from "../../harness/evidence/forgery.ts";

const VERIFY_PY = fileURLToPath(new URL("../../../shared/transfer/bundle/verify.py", import.meta.url));
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

const PROGRAM = `
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("verify", sys.argv[1])
verify = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify)
print(json.dumps([verify.judge_proof(*one)[0] for one in json.load(sys.stdin)]))
`;

const ISSUER = "https://login.example";
const CHALLENGE = "c3RhdGVtZW50";
const CHANGES = 60;
const signer = { id: { issuer: ISSUER, subject: "ada" }, printed_name: "Ada Lovelace" };
const statement = exactObject(canonicalText({ signer, subject: { tenant: "default" } }))!;
const provider = await generateKeyPair("ES256", { extractable: true });

/** biome-ignore lint/suspicious/noExplicitAny: the test changes members of any kind. */
type Any = any;

interface Wanted {
  readonly kind?: PasskeyKind;
  readonly asked?: Partial<Asked>;
  readonly enrolment?: object;
  readonly claims?: object;
}

async function proofWith({
  kind = "EC",
  asked = {},
  enrolment = {},
  claims = {},
}: Wanted = {}): Promise<Any> {
  const authenticator = new SoftwareAuthenticator(kind);
  const passkey = { credential_id: authenticator.credentialId, jwk: authenticator.jwk, rp_id: "localhost" };
  const payload = enrolmentPayload({
    ...{ v: 1, tenant: "default", signer, passkey, policy: "0".repeat(64) },
    ...{ enrolled_at: "2026-11-26T13:00:00.000Z", ...enrolment },
  } as Parameters<typeof enrolmentPayload>[0]);
  const id_token = await new SignJWT({ iss: ISSUER, sub: "ada", nonce: enrolmentNonce(payload), ...claims })
    .setProtectedHeader({ alg: "ES256" })
    .sign(provider.privateKey);
  const answer = authenticator.answer({ challenge: CHALLENGE, ...asked });
  const signature = Buffer.from(answer.signature, "base64url");
  return {
    ...{ kind: "webauthn", authenticator_data: answer.authenticatorData, client_data: answer.clientData },
    signature: (kind === "EC" ? fixedSignature(signature)! : signature).toString("base64url"),
    enrolment: {
      ...{ payload: payload.toString("base64"), id_token },
      jwk: { ...(await exportJWK(provider.publicKey)) },
    },
  };
}

const judged = (proof: Any): string | null => {
  const found: string | JudgedProof = judgeProof(proof, statement, CHALLENGE);
  return typeof found === "string" ? found : null;
};

const random = seeded(5);

function changed(proof: Any): Any {
  const copy = structuredClone(proof);
  const names = ["authenticator_data", "client_data", "signature", "payload", "id_token", "kind"];
  const name = names[random(names.length)]!;
  const owner = name in copy ? copy : copy.enrolment;
  const text: string = owner[name];
  const at = random(text.length);
  const odd = ["=", "A", "-", "é", "", "_"][random(6)]!;
  owner[name] = random(12) === 0 ? random(9) : `${text.slice(0, at)}${odd}${text.slice(at + random(2))}`;
  return copy;
}

test("the two verifiers agree about each proof by a passkey", { timeout: 120_000 }, async () => {
  const good = await Promise.all((["EC", "OKP", "RSA"] as const).map((kind) => proofWith({ kind })));
  expect(good.map(judged)).toEqual([null, null, null]);
  const [ec, ed] = good;
  const mismatched = await Promise.all(
    [
      { asked: { challenge: "b3RoZXI" } },
      { asked: { isVerified: false } },
      { asked: { isPresent: false } },
      { asked: { crossOrigin: true } },
      { asked: { rpId: "other.example" } },
      { asked: { origin: "http://localhost.evil.example" } },
      { asked: { origin: "http://evil.localhost:80" } },
      { asked: { origin: "http://localhost:80/path" } },
      { asked: { origin: "http://localhost\n" } },
      { enrolment: { tenant: "acme" } },
      { enrolment: { signer: { ...signer, printed_name: "Grace Hopper" } } },
      { enrolment: { signer: { ...signer, id: { issuer: ISSUER, subject: "grace" } } } },
      { claims: { sub: "grace" } },
      { claims: { iss: "https://other.example" } },
      { claims: { nonce: "other" } },
    ].map(proofWith),
  );
  expect(mismatched.map(judged)).toEqual(mismatched.map(() => "esign_mismatch"));
  const invalid = [
    await proofWith({ asked: { type: "webauthn.create" } }),
    await proofWith({ enrolment: { v: 2 } }),
    { ...ec, signature: ed.signature },
    { ...ec, enrolment: ed.enrolment },
    { ...ec, enrolment: null },
    { ...ec, kind: "other" },
    { ...ec, authenticator_data: ec.authenticator_data.slice(0, 40) },
  ];
  expect(invalid.map(judged)).toEqual(invalid.map(() => "esign_proof"));
  const edited = good.flatMap((proof) => Array.from({ length: CHANGES }, () => changed(proof)));
  const cases = [...good, ...mismatched, ...invalid, ...edited];
  const found = cases.map(judged);
  expect(found.filter((code) => code !== null).length).toBeGreaterThan(edited.length / 2);
  if (!hasPython) return;
  const input = JSON.stringify(cases.map((proof) => [proof, statement, CHALLENGE]));
  const run = spawnSync("python3", ["-c", PROGRAM, VERIFY_PY], { input, encoding: "utf8" });
  expect(run.stderr).toBe("");
  expect(JSON.parse(run.stdout)).toEqual(found);
});
