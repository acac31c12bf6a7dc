/** Both verifiers of bundles judge the acts of the tenant about a passkey alike: who enrolled it, with which key, and when it was revoked. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { canonicalText, sha256Hex } from "../../../shared/integrity/canonical.ts";
import { envelopeOf, signStatements } from "../../../shared/integrity/commit-signature.ts";
import type { SigningKey } from "../../../shared/integrity/dsse.ts";
import { enrolmentFacts } from "../../../shared/integrity/esign/enrolment-act.ts";
import { BundleKeys, bundleKeyOf } from "../../../shared/transfer/bundle/offline/bundle-keys.ts";
import { passkeyFault } from "../../../shared/transfer/bundle/offline/bundle-passkeys.ts";
import { type ExactObject, exactObject } from "../../../shared/transfer/bundle/offline/exact-json.ts";
import { enrolledKey } from "../../harness/esign/passkey-person.ts";
import { newProvider } from "../../harness/esign/signed-statement.ts";
import { newKey } from "../../harness/records/signed.ts";

const VERIFY_PY = fileURLToPath(new URL("../../../shared/transfer/bundle/verify.py", import.meta.url));
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

const PROGRAM = `
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("verify", sys.argv[1])
verify = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify)
given = json.load(sys.stdin)
keys = verify.Keys()
keys.all[given["key"]["key_id"]] = verify.key_of(given["key"])
print(json.dumps([verify.passkey_fault(*one[:3], keys, one[3]) for one in given["cases"]]))
`;

const key = newKey();
const keyRecord = {
  ...{ key_id: key.id, algorithm: "ed25519", public_key: key.publicKey, purpose: "commits", owner: "writer" },
  ...{ not_before: "2026-01-01T00:00:00.000Z", not_after: null, revoked_at: null, revoked_reason: null },
};
const keys = new BundleKeys();
keys.add(bundleKeyOf(exactObject(canonicalText(keyRecord))!)!);

const AT = "2026-11-26T13:00:00.000Z";
const ada = await enrolledKey();
const other = await enrolledKey("ada");
const id = { issuer: "https://login.example", subject: "ada" };
const subject = { ...enrolmentFacts(id, ada.authenticator.credentialId, ada.enrolment) };
const revocation = { ...id, passkey_id: subject.passkey_id, reason: "lost" };

interface Act {
  readonly seq: number;
  readonly entry: string;
  readonly end: number;
  readonly signature: object | null;
}

/** `signer` null: the act is unsigned. */
function act(
  seq: number,
  changes: object,
  signer: SigningKey | null = key,
  signed: { readonly tenant?: string; readonly task?: string | null; readonly first?: number } = {},
): Act {
  const facts = {
    ...{ action: "passkey_add", actor: { id: "human=ada", type: "human" }, at: AT, prev: "0".repeat(64) },
    ...{
      seq,
      subject,
      tenant: "default",
      v: 1,
      ...(signer !== null && { signed_by: signer.id }),
      ...changes,
    },
  };
  const entry = canonicalText(facts);
  const statement = { at: facts.at, checkpoints: [], entries: [sha256Hex(entry)], first: seq, task: null };
  const signature =
    signer === null
      ? null
      : envelopeOf(signStatements(signer, [{ ...statement, tenant: "default", ...signed }])[0]!);
  return { seq, entry, end: seq, signature };
}

const added = act(5, {});
const revokedAt = (at: string, changes: object = {}) =>
  act(9, { action: "passkey_revoke", subject: revocation, at, ...changes });

interface Case {
  readonly acts: unknown;
  readonly facts?: object;
  readonly login?: object;
  readonly isRequired?: boolean;
}

const SIGNED_BY = { signed_by: key.id };

function argumentsOf({ acts, facts = {}, login = ada.enrolment, isRequired = true }: Case) {
  const entry = {
    ...{ op: "signature_add", tenant: "default", at: AT, passkey_seq: 5, ...SIGNED_BY },
    ...{ signer_issuer: id.issuer, signer_subject: id.subject, ...facts },
  };
  const line = acts === undefined ? {} : { passkey_acts: acts };
  // Without the members that are undefined.
  return [line, JSON.parse(JSON.stringify(entry)) as object, login, isRequired] as const;
}

const exact = (value: unknown): ExactObject => exactObject(canonicalText(value))!;

function judged(one: Case): string | null {
  const [line, facts, login, isRequired] = argumentsOf(one);
  const of = { tenant: "default", task: "auth", seq: 8, text: "", facts: exact(facts), line: exact(line) };
  return passkeyFault(of, exact({ enrolment: login }), { keys, isRequired });
}

const SOUND: readonly Case[] = [
  { acts: [added] },
  { acts: [added, revokedAt("2026-11-26T14:00:00.000Z")] },
  // The clocks of two services differ a little.
  { acts: [added, revokedAt("2026-11-26T12:59:40.000Z")] },
  // A fleet without signing keys.
  { acts: [act(5, {}, null)], facts: { signed_by: undefined }, isRequired: false },
];

const forgedLogin = { ...ada.enrolment, jwk: (await newProvider()).jwk };
const UNRECORDED: Readonly<Record<string, Case>> = {
  "no acts": { acts: undefined },
  "an empty list": { acts: [] },
  "no list": { acts: added },
  "nothing in the list": { acts: [null] },
  "three acts": { acts: [added, revokedAt("2026-11-26T14:00:00.000Z"), added] },
  "the act of another passkey": {
    acts: [act(5, { subject: enrolmentFacts(id, other.authenticator.credentialId, other.enrolment) })],
  },
  "the act of another person": { acts: [act(5, { subject: { ...subject, subject: "grace" } })] },
  "the act of another provider": {
    acts: [act(5, { subject: { ...subject, issuer: "https://other.example" } })],
  },
  "another login in the proof": { acts: [added], login: forgedLogin },
  "another passkey in the proof": { acts: [added], login: other.enrolment },
  "another place than the signature states": { acts: [act(6, {})] },
  "a signature that states no place": { acts: [added], facts: { passkey_seq: undefined } },
  "the act of another tenant": { acts: [act(5, { tenant: "acme" }, key, { tenant: "acme" })] },
  "a signature for another tenant": { acts: [act(5, {}, key, { tenant: "acme" })] },
  "a signature for a task": { acts: [act(5, {}, key, { task: "auth" })] },
  "an entry of a task": { acts: [act(5, { task: "auth" })] },
  "a revocation in its place": { acts: [act(5, { action: "passkey_revoke" })] },
  "an edited act": { acts: [{ ...added, entry: added.entry.replace(AT, "2026-11-26T13:00:00.001Z") }] },
  "no signature": { acts: [{ ...added, signature: null }] },
  "an absent signature": { acts: [{ seq: added.seq, entry: added.entry, end: added.end }] },
  "an unsigned act of a fleet that signs": { acts: [act(5, {}, null)], isRequired: false },
  "an unsigned act where all are signed": { acts: [act(5, {}, null)], facts: { signed_by: undefined } },
  "a key that is not in the keyset": { acts: [act(5, {}, newKey())] },
  "a time before the key": { acts: [act(5, { at: "2025-01-01T00:00:00.000Z" }, key)] },
  "a revocation before the enrolment": {
    acts: [act(5, {}), { ...act(4, { action: "passkey_revoke", subject: revocation }) }],
  },
  "the revocation of another passkey": {
    acts: [added, revokedAt("2026-11-26T14:00:00.000Z", { subject: { ...revocation, passkey_id: "other" } })],
  },
  "an unsigned revocation": {
    acts: [added, { ...revokedAt("2026-11-26T14:00:00.000Z"), signature: null }],
  },
};

const REVOKED: readonly Case[] = [
  { acts: [added, revokedAt("2026-11-26T12:00:00.000Z")] },
  { acts: [added, revokedAt("2026-11-26T14:00:00.000Z")], facts: { at: "2026-11-26T14:00:31.000Z" } },
];

test("the two verifiers agree about the acts of each passkey", () => {
  expect(SOUND.map(judged)).toEqual(SOUND.map(() => null));
  for (const [name, one] of Object.entries(UNRECORDED)) expect(judged(one), name).toBe("esign_passkey");
  expect(REVOKED.map(judged)).toEqual(REVOKED.map(() => "esign_revoked"));
  if (!hasPython) return;
  const cases = [...SOUND, ...Object.values(UNRECORDED), ...REVOKED];
  const input = JSON.stringify({ key: keyRecord, cases: cases.map(argumentsOf) });
  const run = spawnSync("python3", ["-c", PROGRAM, VERIFY_PY], { input, encoding: "utf8" });
  expect(run.stderr).toBe("");
  expect(JSON.parse(run.stdout)).toEqual(cases.map(judged));
});
