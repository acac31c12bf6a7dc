/** Bundles that would cost a verifier minutes or hours: both refuse the work, and say where. */
import { createHash, X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
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
import { naiveLeaf, naiveRoot } from "../integrity/merkle/naive-tree.ts";

const LONG_MS = 300_000;
const ORIGIN = `fleet/audit/${TENANT}`;
/** The anchors are of the whole log, so each proof is empty. */
const SIZE = 3;
const CERTIFICATES = 14;
const TOKENS = 140;

const key = newKey();
const leaves = Array.from({ length: SIZE }, (_, i) => naiveLeaf(Buffer.from(`entry ${i}`)));
const note = signCheckpoint(key, { origin: ORIGIN, size: SIZE, root: naiveRoot(leaves) });
const state = { not_after: null, revoked_at: null, replaces: null, revoked_reason: null };
const recordOf = (publicKey: string, id: string) => ({
  ...{ key_id: id, algorithm: "ed25519", public_key: publicKey, purpose: "commits", owner: "x" },
  ...{ not_before: TIME, ...state },
});
const anchor = (changes: object = {}): Any => ({
  ...{ target: "folder", size: SIZE, at: TIME, checkpoint: note, consistency: [] },
  ...{ token: null, object: null, retained_until: null, ...changes },
});

let authority: TimestampAuthority;
let folder: string;
beforeAll(async () => {
  authority = await TimestampAuthority.start({ key: ["rsa:2048"] });
  folder = mkdtempSync(join(tmpdir(), "fleet-limits-"));
}, LONG_MS);
afterAll(async () => {
  await authority?.close();
  rmSync(folder, { recursive: true, force: true });
});

function judged(anchors: readonly object[], isTrusting = false) {
  const path = join(folder, "bundle.tar");
  writeSmallBundle(path, { keys: [recordOf(key.publicKey, key.id)], anchors, note });
  return judgeSmallBundle(path, isTrusting ? authority : null);
}

/** Where the modulus of the authority's key stands, in its certificate and copies of it. */
function placesOf(modulus: Buffer, bytes: Buffer): number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf(modulus); at >= 0; at = bytes.indexOf(modulus, at + 1)) places.push(at);
  return places;
}

/** A valid time-stamp beside certificates that bear the name of its issuer and have keys that no other one has. */
function stampsWithForgedIssuers(): object[] {
  const { raw, publicKey } = new X509Certificate(authority.ca);
  const { n = "" } = publicKey.export({ format: "jwk" });
  const start = Buffer.from(n, "base64url").subarray(0, 64);
  const withNumber = (bytes: Buffer, number: number, after: number): Buffer => {
    const copy = Buffer.from(bytes);
    for (const at of placesOf(start, copy)) copy.writeUInt32BE(number, at + after);
    return copy;
  };
  const forged = Array.from({ length: CERTIFICATES }, (_, i) => withNumber(raw, i + 1, 80));
  const pems = [raw, ...forged].map((der) => {
    const lines = der
      .toString("base64")
      .match(/.{1,64}/g)!
      .join("\n");
    return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
  });
  writeFileSync(join(authority.folder, "chain.pem"), pems.join(""));
  const token = authority.stamp(Buffer.from(note));
  expect(placesOf(start, token)).toHaveLength(CERTIFICATES + 1);
  const at = authority.timeIn(token).toISOString();
  return Array.from({ length: TOKENS }, (_, i) =>
    anchor({ target: "timestamp", at, token: withNumber(token, i + 1, 90).toString("base64") }),
  );
}

test("time-stamps with ever new certificates end the reading, and their times count without them", {
  timeout: LONG_MS,
}, () => {
  const anchors = stampsWithForgedIssuers();
  expect(judged(anchors)).toMatchObject({ codes: [], counts: { anchors: TOKENS } });
  const found = judged(anchors, true);
  // Each has 15 signatures of its own, and all have two: 2 + 133 * 15 is the largest such number below 2,000.
  expect(found.codes).toEqual(["limit anchors.jsonl:134"]);
  expect(found.anchors).toMatchObject([{ target: "timestamp", time: "verified" }]);
});

test("more anchors of a target than the fleet exports, and a larger time-stamp", { timeout: LONG_MS }, () => {
  const most = Array.from({ length: 1_000 }, () => anchor());
  expect(judged(most).codes).toEqual([]);
  const inBucket = anchor({ target: "bucket", object: "o", retained_until: TIME });
  expect(judged([...most, inBucket, anchor(), anchor()]).codes).toEqual(["limit anchors.jsonl:1002"]);
  const stamped = (bytes: number) =>
    anchor({ target: "timestamp", token: Buffer.alloc(bytes).toString("base64") });
  expect(judged([stamped(24_576), stamped(24_577), stamped(24_577)]).codes).toEqual([
    "timestamp_invalid anchors.jsonl:1",
    "limit anchors.jsonl:2",
  ]);
});

test("a checkpoint with many signatures in the name of its key", () => {
  const [text, line] = note.split("\n\n") as [string, string];
  const bytes = Buffer.from(line.trimEnd().split(" ")[2]!, "base64");
  const wrong = (n: number): string => {
    const other = Buffer.from(bytes);
    other[10] = other[10]! ^ n;
    return `— ${ORIGIN} ${other.toString("base64")}\n`;
  };
  const withLines = (lines: string) => judged([anchor({ checkpoint: `${text}\n\n${lines}` })]).codes;
  expect(withLines(wrong(1) + line)).toEqual([]);
  expect(withLines(wrong(1) + wrong(2) + line)).toEqual(["anchor_invalid anchors.jsonl:1"]);
});

test("more keys than any fleet has had", { timeout: LONG_MS }, () => {
  const start = Buffer.from("302a300506032b6570032100", "hex");
  const keys = Array.from({ length: 5_001 }, (_, i) => {
    const point = createHash("sha256").update(`key ${i}`).digest();
    // Below the prime of the field.
    point[31] = 1;
    const der = Buffer.concat([start, point]);
    return recordOf(der.toString("base64"), createHash("sha256").update(der).digest("hex"));
  });
  const path = join(folder, "keys.tar");
  writeSmallBundle(path, { keys: keys.slice(1) });
  expect(judgeSmallBundle(path).codes).toEqual([]);
  writeSmallBundle(path, { keys });
  expect(judgeSmallBundle(path).codes).toEqual(["limit keyset.json/5000", "count manifest.json"]);
});
