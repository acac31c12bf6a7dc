/** Both verifiers of bundles judge the tokens of identity providers alike: of each algorithm, and changed in many ways. */
import { spawnSync } from "node:child_process";
import { createHash, getDiffieHellman } from "node:crypto";
import { fileURLToPath } from "node:url";
import { CompactSign, exportJWK, generateKeyPair, SignJWT } from "jose";
import { expect, test } from "vitest";
import { type TokenProof, verifiedClaims } from "../../../shared/integrity/esign/token-signature.ts";
import { seeded } from "../../harness/evidence/forgery.ts";

const VERIFY_PY = fileURLToPath(new URL("../../../shared/transfer/bundle/verify.py", import.meta.url));
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

const PROGRAM = `
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("verify", sys.argv[1])
verify = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify)
cases = json.load(sys.stdin)
print(json.dumps([verify.token_claims(one["id_token"], one["jwk"]) for one in cases]))
`;

const ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "Ed25519", "EdDSA"];
const CHANGES = 60;

async function proofWith(
  alg: string,
  options: { readonly modulusLength?: number } = {},
): Promise<TokenProof> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true, ...options });
  const token = await new SignJWT({ sub: "ada", name: "Ünï 😀" })
    .setProtectedHeader({ alg })
    .sign(privateKey);
  return { id_token: token, jwk: { ...(await exportJWK(publicKey)) } };
}

const random = seeded(3);
const ODD = ["=", "!", " ", "é", ".", "A", "-", "_", "+", "/", "\n"];

/** One character of a text removed, added or exchanged, or two parts of the token exchanged. */
function edited(text: string): string {
  const at = random(text.length + 1);
  const what = random(4);
  if (what === 3) return text.split(".").reverse().join(".");
  return `${text.slice(0, at)}${what === 0 ? "" : ODD[random(ODD.length)]}${text.slice(at + (what === 1 ? 0 : 1))}`;
}

function changedProof({ id_token, jwk }: TokenProof): TokenProof {
  if (random(2) === 0) return { id_token: edited(id_token), jwk };
  const names = Object.keys(jwk);
  const name = names[random(names.length)]!;
  return { id_token, jwk: { ...jwk, [name]: random(5) === 0 ? random(9) : edited(String(jwk[name])) } };
}

const numberIn = (bytes: Buffer): bigint => BigInt(`0x${bytes.toString("hex")}`);
const bytesOf = (number: bigint, length: number): Buffer =>
  Buffer.from(number.toString(16).padStart(2 * length, "0"), "hex");

function power(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let result = 1n;
  let square = base % modulus;
  for (let left = exponent; left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) result = (result * square) % modulus;
    square = (square * square) % modulus;
  }
  return result;
}

/** Sound by arithmetic, under twice a known prime. */
function proofOfEvenKey(): TokenProof {
  const prime = numberIn(getDiffieHellman("modp14").getPrime());
  const modulus = 2n * prime;
  const order = (prime - 1n) / 2n;
  // (prime - 1) / 2 is a prime too, so this inverts the exponent modulo it.
  const inverse = power(65_537n, order - 2n, order);
  const signed = [{ alg: "RS256" }, { sub: "ada" }].map((part) =>
    Buffer.from(JSON.stringify(part)).toString("base64url"),
  );
  const digest = createHash("sha256").update(signed.join(".")).digest();
  const info = Buffer.concat([Buffer.from("3031300d060960864801650304020105000420", "hex"), digest]);
  const ones = Buffer.alloc(257 - info.length - 3, 255);
  const message = numberIn(Buffer.concat([Buffer.from([0, 1]), ones, Buffer.from([0]), info]));
  const roots = [power(message, inverse, prime), prime - power(message, inverse, prime)];
  const signature = roots
    .flatMap((root) => [root, root + prime])
    .find((one) => power(one, 65_537n, modulus) === message)!;
  const jwk = { kty: "RSA", n: bytesOf(modulus, 257).toString("base64url"), e: "AQAB" };
  return { id_token: [...signed, bytesOf(signature, 257).toString("base64url")].join("."), jwk };
}

const SMALL_ORDER = Buffer.concat([Buffer.from([1]), Buffer.alloc(31)]).toString("base64url");

test("the two verifiers agree about each token", { timeout: 120_000 }, async () => {
  const proofs = [
    ...(await Promise.all(ALGORITHMS.map((alg) => proofWith(alg)))),
    // The padding of a modulus whose bits are no multiple of eight is longer by one byte.
    await proofWith("PS256", { modulusLength: 2_049 }),
  ];
  for (const proof of proofs) expect(verifiedClaims(proof)).toEqual({ sub: "ada", name: "Ünï 😀" });
  const [rsa, , ec, , ed] = proofs as [TokenProof, TokenProof, TokenProof, TokenProof, TokenProof];
  const refused = [
    { id_token: rsa.id_token, jwk: ec.jwk },
    { id_token: ec.id_token, jwk: { ...ec.jwk, crv: "P-384" } },
    { id_token: ec.id_token, jwk: { ...ec.jwk, y: ec.jwk.x } },
    { id_token: rsa.id_token, jwk: { ...rsa.jwk, e: "Aw" } },
    { id_token: rsa.id_token, jwk: { ...rsa.jwk, n: `AA${String(rsa.jwk.n)}` } },
    { id_token: ed.id_token, jwk: { ...ed.jwk, x: SMALL_ORDER } },
    { id_token: `${ec.id_token}=`, jwk: ec.jwk },
    { id_token: "", jwk: ec.jwk },
    proofOfEvenKey(),
  ];
  for (const proof of refused) expect(verifiedClaims(proof)).toBeNull();
  const changed = proofs.flatMap((proof) => Array.from({ length: CHANGES }, () => changedProof(proof)));
  const cases = [...proofs, ...refused, ...changed];
  const found = cases.map(verifiedClaims);
  // A member of the key that verifies nothing, such as its id, may be changed.
  expect(found.filter((claims) => claims === null).length).toBeGreaterThan(changed.length / 2);
  if (!hasPython) return;
  const run = spawnSync("python3", ["-c", PROGRAM, VERIFY_PY], {
    input: JSON.stringify(cases),
    encoding: "utf8",
  });
  expect(run.stderr).toBe("");
  expect(JSON.parse(run.stdout)).toEqual(found);
});

/** Very long numbers in the claims, which one of the languages might read slowly, or refuse. */
test("the two verifiers read numbers of any length in a token", { timeout: 120_000 }, async () => {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const claims = Buffer.from(`{"sub":"ada","n":${"1".repeat(10_000)}}`);
  const id_token = await new CompactSign(claims).setProtectedHeader({ alg: "ES256" }).sign(privateKey);
  const proof = { id_token, jwk: { ...(await exportJWK(publicKey)) } };
  expect(verifiedClaims(proof)?.sub).toBe("ada");
  if (!hasPython) return;
  const program = PROGRAM.replace("verify.token_claims(one", "(verify.token_claims(one").replace(
    '"]) for one',
    '"]) or {}).get("sub") for one',
  );
  const run = spawnSync("python3", ["-c", program, VERIFY_PY], {
    input: JSON.stringify([proof]),
    encoding: "utf8",
  });
  expect(run.stderr).toBe("");
  expect(JSON.parse(run.stdout)).toEqual(["ada"]);
});
