/**
 * Time-stamps of authorities of all supported kinds, and a thousand changed ones: the verifier of the project and the one in Python, which
 * share no code, say the same about each, and accept nothing that `openssl ts -verify` refuses.
 */
import { spawnSync } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { judgeTimestamp } from "../../../../shared/integrity/timestamp/timestamp-response.ts";
import { type AuthorityKind, TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";
import { seeded } from "../../../harness/evidence/forgery.ts";

const LONG_MS = 200_000;
const SEED = 3161;
const CHANGED = 300;
const content = "fleet/audit/default\n2\n…\n";
const BYTES = Buffer.from(content);

const FOLDER = dirname(
  fileURLToPath(new URL("../../../../shared/transfer/bundle/verify.py", import.meta.url)),
);
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

interface Case {
  readonly token: Buffer;
  /** PEM. null: none is named. */
  readonly authorities: string | null;
}

/** Reads cases as JSON lines, and prints the time and whether the authority is trusted. */
const PYTHON = `
import base64, json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import verify
for line in sys.stdin:
    case = json.loads(line)
    trusted = None if case["authorities"] is None else verify.certificates_in(case["authorities"])
    judged = verify.stamped_time(base64.b64decode(case["token"]), base64.b64decode(case["content"]), trusted)
    print(json.dumps(judged))
`;

type Verdict = readonly [time: number, isTrusted: boolean] | null;

function pythonVerdicts(cases: readonly Case[]): Verdict[] {
  const lines = cases.map(({ token, authorities }) =>
    JSON.stringify({ token: token.toString("base64"), content: BYTES.toString("base64"), authorities }),
  );
  const run = spawnSync("python3", ["-c", PYTHON, FOLDER], {
    input: `${lines.join("\n")}\n`,
    encoding: "utf8",
  });
  expect(run.stderr).toBe("");
  return run.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Verdict);
}

function verdict({ token, authorities }: Case): Verdict {
  const trust = { authorities: authorities === null ? [] : [authorities], nonce: null };
  const { problem, isUntrusted, at } = judgeTimestamp(token, BYTES, trust);
  return problem === null || isUntrusted ? [Date.parse(at!), !isUntrusted] : null;
}

function changedTokens(token: Buffer): Buffer[] {
  const random = seeded(SEED);
  return Array.from({ length: CHANGED }, () => {
    const bytes = Buffer.from(token);
    const at = random(bytes.length);
    bytes[at] = bytes[at]! ^ (1 << random(8));
    return random(20) === 0 ? bytes.subarray(0, at) : bytes;
  });
}

const rsa = ["rsa:2048"];
const p384 = ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"];
const noAuthority = "basicConstraints = critical,CA:FALSE\n";
const noCertificates = "basicConstraints = critical,CA:TRUE\nkeyUsage = critical,digitalSignature\n";
const lastAuthority = "basicConstraints = critical,CA:TRUE,pathlen:0\nkeyUsage = critical,keyCertSign\n";
const unknownDemand =
  "basicConstraints = critical,CA:TRUE\nnameConstraints = critical,permitted;DNS:example.org\n";

test.each<[string, Partial<AuthorityKind>, boolean]>([
  ["P-256 and SHA-256", {}, true],
  ["P-256 and SHA-512", { digest: "sha512" }, true],
  ["P-384 and SHA-384, with an authority between", { key: p384, digest: "sha384", hasMiddle: true }, true],
  ["RSA and SHA-256, with an authority between", { key: rsa, hasMiddle: true }, true],
  ["RSA and SHA-512", { key: rsa, digest: "sha512" }, true],
  ["a certificate between that is no authority", { hasMiddle: true, middle: noAuthority }, false],
  ["one between that may not sign certificates", { hasMiddle: true, middle: noCertificates }, false],
  ["a root that may have no authority between", { hasMiddle: true, root: lastAuthority }, false],
  ["one between with a demand that is not known here", { hasMiddle: true, middle: unknownDemand }, false],
])("%s", { timeout: LONG_MS }, async (_title, kind, isTrusted) => {
  const authority = await TimestampAuthority.start(kind);
  try {
    const token = authority.stamp(BYTES);
    const time = authority.timeIn(token).getTime();
    const sound = { token, authorities: authority.ca };
    expect(verdict(sound)).toEqual([time, isTrusted]);
    expect(verdict({ token, authorities: null })).toEqual([time, true]);
    if (isTrusted) expect(authority.verifies(token, content)).toBe(true);
    const changed = changedTokens(token).map((bytes) => ({ token: bytes, authorities: authority.ca }));
    const cases = [sound, { token, authorities: null }, ...changed];
    const verdicts = cases.map(verdict);
    // No changed byte makes another time of it.
    expect(verdicts.filter((one) => one !== null && one[0] !== time)).toEqual([]);
    const sum = JSON.stringify(verdicts[0]);
    expect(verdicts.filter((one) => JSON.stringify(one) !== sum).length).toBeGreaterThan(CHANGED / 4);
    if (hasPython) expect(pythonVerdicts(cases)).toEqual(verdicts);
  } finally {
    await authority.close();
  }
});

test("trust begins at any certificate, and ends outside of their validity", {
  timeout: LONG_MS,
}, async () => {
  const authority = await TimestampAuthority.start({ hasMiddle: true, middle: lastAuthority });
  try {
    const token = authority.stamp(BYTES);
    const cases = [authority.ca, authority.certificate("middle"), authority.certificate("tsa")].map(
      (authorities) => ({ token, authorities }),
    );
    const time = authority.timeIn(token).getTime();
    expect(cases.map(verdict)).toEqual(cases.map(() => [time, true]));
    const late = authority.retimed(token, new Date("2019-01-01T00:00:00Z"));
    const early = authority.retimed(token, new Date("2020-06-01T00:00:00Z"));
    const others = [late, early].map((other) => ({ token: other, authorities: authority.ca }));
    expect(others.map(verdict)).toEqual([null, [Date.parse("2020-06-01T00:00:00Z"), true]]);
    if (hasPython) expect(pythonVerdicts([...cases, ...others])).toEqual([...cases, ...others].map(verdict));
  } finally {
    await authority.close();
  }
});
