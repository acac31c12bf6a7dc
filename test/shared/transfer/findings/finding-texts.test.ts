/** What the verifiers print about findings: both the same sentences, for every code that they can find. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { renderBundle } from "../../../../services/cli/rendering/transfer/bundle.ts";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { SIGNATURE_PROBLEMS } from "../../../../shared/protocol/signing-keys.ts";
import { FINDING_TEXTS } from "../../../../shared/transfer/bundle/offline/findings/finding-texts.ts";
import { sha256 } from "../../../harness/evidence/forgery.ts";
import {
  EXPORTED_AT,
  hasPython,
  judgeSmallBundle,
  TENANT,
  writeSmallBundle,
} from "../../../harness/evidence/small-bundle.ts";
import { view } from "../../../services/cli/rendering/view.ts";

const VERIFY_MJS = fileURLToPath(new URL("../../../../shared/transfer/bundle/verify.mjs", import.meta.url));
const VERIFY_PY = fileURLToPath(new URL("../../../../shared/transfer/bundle/verify.py", import.meta.url));
const CALLS_MS = 60_000;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-finding-texts-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Of verify.mjs; verify.py must print the same. */
function printed(...args: string[]) {
  const [found, other] = [
    [process.execPath, VERIFY_MJS],
    ["python3", VERIFY_PY],
  ].map(([program, file]) => {
    if (program === "python3" && !hasPython) return null;
    const { status, stdout, stderr } = spawnSync(program!, [file!, ...args], { encoding: "utf8" });
    return { status, out: stdout, err: stderr.replace(/^Usage:[\s\S]*/m, "") };
  });
  if (other !== null) expect(other).toEqual(found);
  return found!;
}

test("each code has a sentence, the same in both verifiers", { timeout: CALLS_MS }, () => {
  const source = readFileSync(VERIFY_PY, "utf8");
  const codes = [
    /\bfind\("([a-z_]+)"/g,
    /\brequire\(.*, "([a-z_]+)"\)$/gm,
    /\bFault\("([a-z_]+)"\)/g,
  ].flatMap((form) => [...source.matchAll(form)].map(([, code]) => code!));
  expect(codes.length).toBeGreaterThan(50);
  for (const code of [...codes, ...Object.keys(SIGNATURE_PROBLEMS)])
    expect(FINDING_TEXTS, code).toHaveProperty(code);
  if (!hasPython) return;
  const script = "import json, verify; print(json.dumps(verify.FINDING_TEXTS))";
  const { stdout } = spawnSync("python3", ["-B", "-c", script], {
    cwd: dirname(VERIFY_PY),
    encoding: "utf8",
  });
  const { state: _ofTheCommandAlone, ...texts } = FINDING_TEXTS;
  expect(JSON.parse(stdout)).toEqual(texts);
});

test("a version that the fleet could not read is named, with its task", { timeout: CALLS_MS }, () => {
  const [task_id, checkpoint_id] = ["auth", "chk-1"];
  const of = { at: EXPORTED_AT, op: "create", prev: "0".repeat(64), seq: 1, task: task_id, tenant: TENANT };
  const entry = canonicalText({ ...of, checkpoint_id, version: 1, new_hash: "a".repeat(64), old_hash: null });
  const head = { task_id, tenant: TENANT, seq: 1, audit_seq: 1, audit_hash: sha256(entry) };
  const counts = { entries: 1, versions: 0, lost: 1, records: 0, records_lost: 0, handoffs: 0 };
  const lines = [
    { kind: "task", task: head },
    { kind: "audit", seq: 1, entry },
    { kind: "lost", checkpoint_id, version: 1 },
    { kind: "task_end", task_id, ...counts },
  ];
  const path = join(folder, "lost.tar");
  writeSmallBundle(path, { lines, proofs: [{ task: task_id, seq: 1, pending: "unsigned_log" }] });
  const report = judgeSmallBundle(path);
  const place = "export.jsonl:4 (version 1 of chk-1, task auth)";
  expect(report.findings).toEqual([{ at: place, code: "incomplete" }]);
  const text = `  FINDING incomplete: ${FINDING_TEXTS.incomplete}\n    at ${place}\n`;
  expect(printed(path)).toMatchObject({ status: 8, out: expect.stringContaining(text) as string });
  expect(printed(path).out).toMatch(/: 1 finding\n/);
  expect(renderBundle(path, report, view)).toContain(`incomplete: ${FINDING_TEXTS.incomplete}; at ${place}`);
});

test("many findings of one code have one sentence and the first places", { timeout: CALLS_MS }, () => {
  const path = join(folder, "keys.tar");
  writeSmallBundle(path, { keys: Array.from({ length: 12 }, (_, n) => ({ key_id: `${n}` })) });
  const { out } = printed(path);
  expect(out).toContain(`FINDING key_invalid (12 times): ${FINDING_TEXTS.key_invalid}\n`);
  expect(out.match(/^ {4}at keyset\.json/gm)).toHaveLength(10);
  expect(out).toContain("    at 2 more; --json lists them\n");
});

test("an id of a key that is cut is named", { timeout: CALLS_MS }, () => {
  for (const option of ["--key", "--revoked"]) {
    const { status, out, err } = printed(join(folder, "any.tar"), option, "cdd36b2b4cb51325");
    expect({ status, out }).toEqual({ status: 64, out: "" });
    expect(err).toContain(`error: ${option} cdd36b2b4cb51325: the id of a key has 64 hexadecimal digits`);
  }
});

test("of a file that is no bundle, only that is printed", { timeout: CALLS_MS }, () => {
  const path = join(folder, "junk.tar");
  writeFileSync(path, "junk");
  const text = `${path}: 1 finding\n  FINDING archive: ${FINDING_TEXTS.archive}\n    at byte:0\n`;
  expect(printed(path)).toEqual({ status: 8, out: text, err: "" });
});
