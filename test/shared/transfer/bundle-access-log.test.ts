/** Access logs that no fleet has written, in a bundle without signatures: what both verifiers find and print. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import { verifierFiles } from "../../../shared/transfer/bundle/bundle-files.ts";
import { sha256 } from "../../harness/evidence/forgery.ts";
import {
  hasPython,
  judgeSmallBundle,
  TENANT,
  writeSmallBundle,
} from "../../harness/evidence/small-bundle.ts";

const LONG_MS = 100_000;
const AT = "2026-02-02T02:30:00.000Z";
const MOST = Number.MAX_SAFE_INTEGER;

interface Place {
  readonly seq: number;
  readonly hash: string;
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-access-log-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A log that begins after a removed block, with blocks that have lost so many entries. */
function logOf(start: Place | null, losses: readonly number[], statements: readonly Place[] = []): object[] {
  let last: Place = start ?? { seq: 0, hash: "0".repeat(64) };
  const blocks = losses.map((lost) => {
    const seq = last.seq + 1;
    const facts = { at: AT, entries: [], lost, prev: last.hash, seq, tenant: TENANT, v: 1 };
    const pruned = start !== null && { pruned: { ...start, before: AT, entries: 0 } };
    const entry = canonicalText({ ...facts, ...pruned });
    last = { seq, hash: sha256(entry) };
    return { kind: "block", seq, entry };
  });
  const stated = statements.map(({ seq: block, hash }, i) => {
    const facts = { action: "access_log", at: AT, prev: "0".repeat(64), seq: i + 1, tenant: TENANT };
    const entry = canonicalText({ ...facts, subject: { block, hash }, v: 2 });
    return { kind: "statement", seq: i + 1, end: i + 1, entry };
  });
  return [{ kind: "log", start, head: last }, ...stated, ...blocks];
}

function judged(access: readonly object[]) {
  const path = join(folder, "judged.tar");
  writeSmallBundle(path, { access });
  const { codes, counts } = judgeSmallBundle(path);
  // The small bundle states no counts of the log.
  return { codes: codes.filter((code) => code !== "count manifest.json"), lost: counts.access_lost };
}

test("lost entries are counted as long as a number can state them", { timeout: LONG_MS }, () => {
  expect(judged(logOf(null, [MOST - 1, 1]))).toEqual({ codes: [], lost: MOST });
  expect(judged(logOf(null, [1, MOST, 1]))).toEqual({ codes: ["line access.jsonl:3"], lost: 1 });
  expect(judged(logOf(null, [MOST, MOST]))).toEqual({ codes: ["line access.jsonl:3"], lost: MOST });
});

test("a statement about the last removed block is compared with the start of the log", {
  timeout: LONG_MS,
}, () => {
  const start = { seq: 4, hash: "a".repeat(64) };
  const other = { seq: 4, hash: "b".repeat(64) };
  expect(judged(logOf(start, [0], [start])).codes).toEqual([]);
  expect(judged(logOf(start, [0], [{ ...other, seq: 3 }])).codes).toEqual([]);
  expect(judged(logOf(start, [0], [other])).codes).toEqual(["access_contradicted =access/4"]);
});

test("both reports say whether there is an access log, and that its end was not compared", {
  timeout: LONG_MS,
}, () => {
  const program = join(folder, "verify.mjs");
  const python = join(folder, "verify.py");
  for (const { name, bytes } of verifierFiles()) writeFileSync(join(folder, name), bytes);
  const printed = (access?: readonly object[]) => {
    const path = join(folder, "printed.tar");
    writeSmallBundle(path, access === undefined ? {} : { access });
    const { stdout, stderr } = spawnSync(process.execPath, [program, path], { encoding: "utf8" });
    expect(stderr).toBe("");
    if (hasPython) expect(spawnSync("python3", [python, path], { encoding: "utf8" }).stdout).toBe(stdout);
    return stdout.split("\n").filter((line) => line.includes("access log"));
  };
  expect(printed()).toEqual([expect.stringMatching(/^ {2}access log: none was read/)]);
  expect(printed(logOf(null, [0]))).toEqual([
    expect.stringMatching(/^ {2}access log: its end was not compared by the fleet/),
  ]);
});
