/** Anchors of every target in a small bundle that this test makes: both verifiers say the same about each of them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { signCheckpoint } from "../../../shared/integrity/merkle/note.ts";
import { TimestampAuthority } from "../../harness/anchors/timestamp-authority.ts";
import type { Any } from "../../harness/evidence/forgery.ts";
import {
  judgeSmallBundle,
  TENANT,
  EXPORTED_AT as TIME,
  writeSmallBundle,
} from "../../harness/evidence/small-bundle.ts";
import { newKey } from "../../harness/records/signed.ts";
import { naiveConsistency, naiveLeaf, naiveRoot } from "../integrity/merkle/naive-tree.ts";

const LONG_MS = 100_000;
const ORIGIN = `fleet/audit/${TENANT}`;
const SIZE = 9;

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

function judged(anchors: readonly object[], isTrusting: boolean, hasLog = true) {
  const path = join(folder, "bundle.tar");
  writeSmallBundle(path, { keys: [record], anchors, ...(hasLog && { note: noteOf(SIZE) }) });
  return judgeSmallBundle(path, isTrusting ? authority : null);
}

test("a sound anchor of each target, with and without the certificates of the authority", () => {
  const lines = [inBucket(SIZE), stamped(7), anchor("folder", 4), inBucket(1)];
  const unnamed = judged(lines, false);
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
  expect(judged(lines, true)).toMatchObject({
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
])("an anchor with %s is a finding", { timeout: LONG_MS }, (_title, lines, codes) => {
  expect(judged(lines(), false).codes).toEqual(codes);
});

test("anchors of a bundle without a log prove nothing, and no anchor is missing without an authority", () => {
  expect(judged([anchor("folder", 4)], false, false).codes).toEqual([`anchor_unproved ${AT}`]);
  expect(judged([anchor("folder", 4)], true).codes).toEqual(["timestamp_missing anchors.jsonl"]);
  const cut = judged([anchor("folder", 4), { omitted_before: 4 }], false);
  expect(cut).toMatchObject({ codes: [], anchors_omitted_before: 4 });
});
