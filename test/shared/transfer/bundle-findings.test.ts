/** A forged bundle with very many faults: both verifiers keep and print a limited number of findings, and say that there are more. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifierFiles } from "../../../shared/transfer/bundle/bundle-files.ts";
import { BUNDLE_FORMAT } from "../../../shared/transfer/bundle/offline/bundle-manifest.ts";
import { verifyBundle } from "../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { FINDINGS_MAX } from "../../../shared/transfer/bundle/offline/findings.ts";
import { line, packed, sha256 } from "../../harness/evidence/forgery.ts";

const MTIME = 1_770_000_000;
const TIME = "2026-02-02T02:40:00.000Z";
const LONG_MS = 100_000;
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-findings-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A bundle whose registry has so many keys that are none, and a task with a name of this length. */
function forgedBundle(count: number, length: number): string {
  const keys = Array.from({ length: count }, (_, n) => ({ key_id: `${n}` }));
  const of = { tenant: "default", exported_at: TIME, fleet: null, tool: "x" };
  const task = { task_id: "\u{1f511}".repeat(length), tenant: "default", audit_seq: 0, seq: 0 };
  const lines = [
    { ...of, kind: "header", format: 5 },
    { kind: "task", task, signatures_required: true },
  ];
  const files: [string, Buffer][] = Object.entries({
    "export.jsonl": lines.map(line).join(""),
    "proofs.jsonl": "",
    "keyset.json": line({ keys, changes: null, signatures_required: false }),
  }).map(([name, text]) => [name, Buffer.from(text)]);
  const listed = files.map(([name, bytes]) => ({ name, size: bytes.length, sha256: sha256(bytes) }));
  const facts = {
    kind: "fleet-evidence",
    format: BUNDLE_FORMAT,
    mtime: MTIME,
    scope: {},
    counts: {},
    files: listed,
  };
  const path = join(folder, `${count}-${length}.tar`);
  writeFileSync(path, packed([...files, ["manifest.json", Buffer.from(line({ ...of, ...facts }))]], MTIME));
  return path;
}

const run = (program: string, ...args: string[]) =>
  spawnSync(program.endsWith(".py") ? "python3" : process.execPath, [program, ...args], {
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });

test.each([
  [FINDINGS_MAX - 10, 8, false],
  [FINDINGS_MAX, 8, true],
  [100_000, 8, true],
  [9, 200_000, false],
])(
  "%i keys that are none, and a task with a name of %i characters",
  { timeout: LONG_MS },
  (count, length, hasMore) => {
    const path = forgedBundle(count, length);
    const report = verifyBundle(path, { keys: null, kept: null });
    expect(report).toMatchObject({ ok: false, more_findings: hasMore });
    expect(report.findings.length > count - 1 || hasMore).toBe(true);
    expect(report.findings.length).toBeLessThanOrEqual(FINDINGS_MAX);
    if (hasMore) expect(report.findings).toHaveLength(FINDINGS_MAX);
    if (!hasMore) expect(report.findings.map(({ code }) => code)).toContain("requirement");
    expect(JSON.stringify(report).length).toBeLessThan(200_000);
    const sorted = report.findings.map(({ at, code }) => `${at}\n${code}`);
    expect(sorted).toEqual([...sorted].sort());
    for (const { name, bytes } of verifierFiles()) {
      if (name.endsWith(".py") && !hasPython) continue;
      const program = join(folder, name);
      writeFileSync(program, bytes);
      const { status, stdout, stderr } = run(program, path, "--json");
      expect({ name, status, stderr }).toEqual({ name, status: 8, stderr: "" });
      expect(JSON.parse(stdout), name).toEqual(report);
      expect(run(program, path).stdout.includes("more than"), name).toBe(hasMore);
    }
  },
);
