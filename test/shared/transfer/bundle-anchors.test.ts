/** Anchors of every target in a small bundle that this test makes: both verifiers say the same about each of them. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { signCheckpoint } from "../../../shared/integrity/merkle/note.ts";
import { verifyBundle } from "../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { TimestampAuthority } from "../../harness/anchors/timestamp-authority.ts";
import { type Any, line, packed, redigested, sha256 } from "../../harness/evidence/forgery.ts";
import { newKey } from "../../harness/records/signed.ts";
import { naiveConsistency, naiveLeaf, naiveRoot } from "../integrity/merkle/naive-tree.ts";

const LONG_MS = 100_000;
const MTIME = 1_770_000_000;
const TIME = "2026-02-02T02:40:00.000Z";
const ORIGIN = "fleet/audit/acme";
const SIZE = 9;
const VERIFY_PY = fileURLToPath(new URL("../../../shared/transfer/bundle/verify.py", import.meta.url));
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

const key = newKey();
const leaves = Array.from({ length: SIZE }, (_, i) => naiveLeaf(Buffer.from(`entry ${i}`)));
const noteOf = (size: number, by = key) =>
  signCheckpoint(by, { origin: ORIGIN, size, root: naiveRoot(leaves.slice(0, size)) });
const proofOf = (size: number) =>
  naiveConsistency(size, leaves).map((hash) => Buffer.from(hash).toString("base64"));

let authority: TimestampAuthority;
let folder: string;
beforeAll(async () => {
  authority = await TimestampAuthority.start();
  folder = mkdtempSync(join(tmpdir(), "fleet-anchor-lines-"));
});
afterAll(async () => {
  await authority.close();
  rmSync(folder, { recursive: true, force: true });
});

const anchor = (target: string, size: number, changes: object = {}): Any => ({
  ...{ target, size, at: TIME, checkpoint: noteOf(size), consistency: proofOf(size) },
  ...{ token: null, object: null, retained_until: null, ...changes },
});
const inBucket = (size: number, changes: object = {}): Any =>
  anchor("bucket", size, { object: "https://s3.example/a.txt", retained_until: TIME, ...changes });
function stamped(size: number, changes: object = {}): Any {
  const token = authority.stamp(Buffer.from(noteOf(size)));
  const at = authority.timeIn(token).toISOString();
  return anchor("timestamp", size, { at, token: token.toString("base64"), ...changes });
}

/** A bundle of a tenant without tasks, with these lines of anchors. */
function bundleWith(anchors: readonly object[], hasLog = true): string {
  const of = { tenant: "acme", exported_at: TIME, fleet: null, tool: "x" };
  const record = {
    ...{ key_id: key.id, algorithm: "ed25519", public_key: key.publicKey, purpose: "commits" },
    ...{
      owner: "x",
      not_before: TIME,
      not_after: null,
      revoked_at: null,
      replaces: null,
      revoked_reason: null,
    },
  };
  const body = redigested([
    { ...of, kind: "header", format: 5 },
    { kind: "trailer", tasks: 0, unreadable: 0 },
  ]);
  const files: [string, Buffer][] = Object.entries({
    "export.jsonl": body,
    "proofs.jsonl": "",
    "keyset.json": line({ keys: [record], changes: null, signatures_required: false }),
    ...(hasLog && { "log.note": noteOf(SIZE) }),
    "anchors.jsonl": anchors.map(line).join(""),
  }).map(([name, text]) => [name, Buffer.from(text)]);
  const listed = files.map(([name, bytes]) => ({ name, size: bytes.length, sha256: sha256(bytes) }));
  const counts = {
    entries: 0,
    included: 0,
    key_changes: 0,
    keys: 1,
    lines: 2,
    pending: 0,
    tasks: 0,
    versions: 0,
  };
  const facts = { kind: "fleet-evidence", format: 1, mtime: MTIME, scope: {}, counts, files: listed };
  const path = join(folder, "bundle.tar");
  writeFileSync(path, packed([...files, ["manifest.json", Buffer.from(line({ ...of, ...facts }))]], MTIME));
  return path;
}

/** The report of both verifiers, without the finding that no fleet has sealed the bundle. */
function judged(path: string, isTrusting: boolean) {
  const trust = { keys: null, kept: null, authorities: isTrusting ? authority.ca : null };
  const report = verifyBundle(path, trust);
  if (hasPython) {
    const args = [VERIFY_PY, path, "--json", ...(isTrusting ? ["--tsa-ca", authority.caFile] : [])];
    const { stdout, stderr } = spawnSync("python3", args, { encoding: "utf8", maxBuffer: 2 ** 26 });
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toEqual(report);
  }
  const codes = report.findings.filter(({ code }) => code !== "seal_missing");
  return { ...report, codes: codes.map(({ at, code }) => `${code} ${at}`) };
}

test("a sound anchor of each target, with and without the certificates of the authority", () => {
  const lines = [inBucket(SIZE), stamped(7), anchor("folder", 4), inBucket(1)];
  const unnamed = judged(bundleWith(lines), false);
  expect(unnamed.codes).toEqual([]);
  expect(unnamed.counts).toMatchObject({ anchors: 4 });
  expect(unnamed.anchors).toMatchObject([
    {
      target: "bucket",
      size: SIZE,
      object: "https://s3.example/a.txt",
      retained_until: TIME,
      time: "stated",
    },
    { target: "folder", size: 4, object: null, time: "stated" },
    { target: "timestamp", size: 7, time: "unverified" },
  ]);
  expect(judged(bundleWith(lines), true)).toMatchObject({
    codes: [],
    anchors: [{}, {}, { target: "timestamp", time: "verified" }],
  });
});

const AT = "anchors.jsonl:1";
test.each<[string, () => readonly object[], readonly string[]]>([
  [
    "a text that was changed",
    () => [
      anchor("folder", SIZE, {
        size: SIZE + 1,
        checkpoint: noteOf(SIZE).replace(`\n${SIZE}\n`, `\n${SIZE + 1}\n`),
      }),
    ],
    [`anchor_invalid ${AT}`],
  ],
  [
    "a longer log",
    () => [
      anchor("folder", SIZE, {
        size: SIZE + 1,
        checkpoint: signCheckpoint(key, { origin: ORIGIN, size: SIZE + 1, root: naiveRoot(leaves) }),
      }),
    ],
    [`anchor_longer ${AT}`],
  ],
  ["another size than its checkpoint", () => [anchor("folder", 4, { size: 5 })], [`anchor_invalid ${AT}`]],
  [
    "a key that is not registered",
    () => [anchor("folder", 4, { checkpoint: noteOf(4, newKey()) })],
    [`anchor_invalid ${AT}`],
  ],
  [
    "the log of another tenant",
    () => [
      anchor("folder", 4, {
        checkpoint: signCheckpoint(key, {
          origin: "fleet/audit/other",
          size: 4,
          root: naiveRoot(leaves.slice(0, 4)),
        }),
      }),
    ],
    [`anchor_invalid ${AT}`],
  ],
  ["no proof", () => [anchor("folder", 4, { consistency: null })], [`anchor_unproved ${AT}`]],
  ["a proof that is none", () => [anchor("folder", 4, { consistency: ["?"] })], [`anchor_unproved ${AT}`]],
  [
    "the proof of another size",
    () => [anchor("folder", 4, { consistency: proofOf(5) })],
    [`anchor_forked ${AT}`],
  ],
  [
    "a proof for the whole log",
    () => [anchor("folder", SIZE, { consistency: proofOf(4) })],
    [`anchor_forked ${AT}`],
  ],
  ["an unknown target", () => [anchor("moon", 4)], [`anchor ${AT}`]],
  ["a bucket without an object", () => [anchor("bucket", 4)], [`anchor ${AT}`]],
  ["a folder with an object", () => [inBucket(4, { target: "folder" })], [`anchor ${AT}`]],
  ["a folder with a time-stamp", () => [stamped(4, { target: "folder" })], [`anchor ${AT}`]],
  ["a time-stamp without a token", () => [anchor("timestamp", 4)], [`anchor ${AT}`]],
  ["a token that is no Base64", () => [stamped(4, { token: "?" })], [`anchor ${AT}`]],
  ["an empty token", () => [stamped(4, { token: "" })], [`timestamp_invalid ${AT}`]],
  [
    "the time-stamp of another checkpoint",
    () => [stamped(5, { size: 4, checkpoint: noteOf(4), consistency: proofOf(4) })],
    [`timestamp_invalid ${AT}`],
  ],
  ["another time than its time-stamp", () => [stamped(4, { at: TIME })], [`timestamp_invalid ${AT}`]],
  ["an order that rises", () => [anchor("folder", 4), inBucket(5)], ["anchor anchors.jsonl:2"]],
  [
    "an anchor after the last line",
    () => [anchor("folder", 4), { omitted_before: 4 }, inBucket(3)],
    ["anchor anchors.jsonl:3"],
  ],
  ["a last line without a number", () => [{ omitted_before: 0 }], [`anchor ${AT}`]],
  [
    "one more than a bundle can have",
    () => Array.from({ length: 5_001 }, () => inBucket(SIZE, { consistency: [] })),
    ["anchor anchors.jsonl:5001"],
  ],
])("an anchor with %s is a finding", { timeout: LONG_MS }, (_title, lines, codes) => {
  expect(judged(bundleWith(lines()), false).codes).toEqual(codes);
});

test("anchors of a bundle without a log prove nothing, and no anchor is missing without an authority", () => {
  expect(judged(bundleWith([anchor("folder", 4)], false), false).codes).toEqual([`anchor_unproved ${AT}`]);
  expect(judged(bundleWith([anchor("folder", 4)]), true).codes).toEqual(["timestamp_missing anchors.jsonl"]);
  const cut = judged(bundleWith([anchor("folder", 4), { omitted_before: 4 }]), false);
  expect(cut).toMatchObject({ codes: [], anchors_omitted_before: 4 });
});
