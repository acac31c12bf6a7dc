/** A bundle with names of members that the engine reads as other ones after certain texts: both verifiers find nothing in it. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import { tokenPart } from "../../../shared/integrity/esign/token-signature.ts";
import { sha256 } from "../../harness/evidence/forgery.ts";
import {
  EXPORTED_AT,
  judgeSmallBundle,
  TENANT,
  writeSmallBundle,
} from "../../harness/evidence/small-bundle.ts";

const VERIFY_MJS = fileURLToPath(new URL("../../../shared/transfer/bundle/verify.mjs", import.meta.url));

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-names-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** nodejs/node#63785: the second name is read as the first one. */
const NAMES = ["\\\\srv", "\\srvx"];

function linesOf(task_id: string, name: string, value: number): object[] {
  const facts = { at: EXPORTED_AT, op: "take", prev: "0".repeat(64), seq: 1, task: task_id, tenant: TENANT };
  const entry = canonicalText({ ...facts, shares: { A: 1, [name]: value } });
  const head = { task_id, tenant: TENANT, seq: 0, audit_seq: 1, audit_hash: sha256(entry) };
  const counts = { entries: 1, versions: 0, lost: 0, records: 0, records_lost: 0, handoffs: 0 };
  return [
    { kind: "task", task: { ...head, shares: { A: 1, [name]: value } } },
    { kind: "audit", seq: 1, entry },
    { kind: "task_end", task_id, ...counts },
  ];
}

test("a text is read alike after any other one", () => {
  const path = join(folder, "bundle.tar");
  const tasks = NAMES.flatMap((name) => [1, 2, 3, 4].map((value) => ({ name, value })));
  const lines = tasks.flatMap(({ name, value }, i) => linesOf(`task-${i}`, name, value));
  const proofs = tasks.map((_, i) => ({ task: `task-${i}`, seq: 1, pending: "unsigned_log" }));
  writeSmallBundle(path, { lines, proofs });
  expect(judgeSmallBundle(path)).toMatchObject({ ok: true, codes: [] });
  const { status, stdout } = spawnSync(process.execPath, [VERIFY_MJS, path, "--json"], { encoding: "utf8" });
  expect({ status, findings: JSON.parse(stdout).findings }).toEqual({ status: 0, findings: [] });
});

test("a part of a token is read alike after any other one", () => {
  for (const name of NAMES) {
    const claims = { A: 1, [name]: 2 };
    const part = Buffer.from(JSON.stringify(claims)).toString("base64url");
    expect(Object.entries(tokenPart(part))).toEqual(Object.entries(claims));
  }
});
