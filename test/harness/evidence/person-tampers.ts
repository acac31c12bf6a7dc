/** Tampers with the signatures of people in a bundle, and with the acts about their passkeys. */
import { generateKeyPairSync, sign } from "node:crypto";
import { type Any, linesOf, rehashed, withLines } from "./forgery.ts";
import { editValue, type Maker, made, turns } from "./tampers.ts";

/** The signature of a person: edited, moved to another version, removed, of no known kind, or one by a provider of the forger. */
const person = (): Maker => {
  const turn = turns();
  return (parts, random) => {
    const lines = linesOf(parts, "export.jsonl");
    const some = lines.filter(({ esignature }) => esignature !== undefined);
    const now = turn(6 * some.length);
    // Each variant with each signature: two of them are of the same version.
    const one = some[Math.floor(now / 6)];
    const others = some.filter((each) => each !== one);
    const other = others[random(others.length)];
    const what = now % 6;
    if (what === 0) delete one.esignature;
    else if (what === 1) [one.esignature, other.esignature] = [other.esignature, one.esignature];
    else if (what === 2) one.esignature.proof = other.esignature.proof;
    else if (what === 3) forgeToken(one.esignature.proof);
    else if (what === 4) one.esignature.proof.kind = "none";
    else editValue(one.esignature, random);
    return made(`signature of a person ${what}`, rehashed(withLines(parts, lines)));
  };
};

const ownProvider = generateKeyPairSync("rsa", { modulusLength: 2_048 });

/** The token of the proof, or that of the enrolment of its passkey, by a key of the forger. */
function forgeToken(proof: Any): void {
  const login = proof.enrolment ?? proof;
  const token: string = login.id_token;
  const signed = token.slice(0, token.lastIndexOf("."));
  const signature = sign("sha256", Buffer.from(signed), ownProvider.privateKey).toString("base64url");
  const jwk = ownProvider.publicKey.export({ format: "jwk" });
  Object.assign(login, { id_token: `${signed}.${signature}`, jwk });
}

/** The acts of the tenant about a passkey: left out, exchanged, or without their signatures. */
const passkeyActs: Maker = (parts, random) => {
  const lines = linesOf(parts, "export.jsonl");
  const one = lines.find(({ passkey_acts }) => passkey_acts !== undefined);
  const [added, revoked] = one.passkey_acts;
  const what = random(5);
  if (what === 0) delete one.passkey_acts;
  else if (what === 1) one.passkey_acts = [revoked, added];
  else if (what === 2) one.passkey_acts = [added, added];
  else if (what === 3) added.signature = null;
  else added.signature = revoked.signature;
  return made(`acts of a passkey ${what}`, rehashed(withLines(parts, lines)));
};

export const personTampers = (): readonly (readonly [Maker, number])[] => [
  [person(), 8],
  [passkeyActs, 3],
];
