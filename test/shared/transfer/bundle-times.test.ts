/** A trail whose times go back: both verifiers find an entry that names a much earlier time than those before it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import { sha256 } from "../../harness/evidence/forgery.ts";
import {
  EXPORTED_AT,
  judgeSmallBundle,
  TENANT,
  writeSmallBundle,
} from "../../harness/evidence/small-bundle.ts";

const MINUTE_MS = 60_000;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-times-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An unsigned task whose entries have these times, in minutes. */
function linesOf(task_id: string, minutes: readonly number[]): object[] {
  let prev = "0".repeat(64);
  const entries = minutes.map((minute, i) => {
    const at = new Date(Date.parse(EXPORTED_AT) + minute * MINUTE_MS).toISOString();
    const entry = canonicalText({ at, op: "take", prev, seq: i + 1, task: task_id, tenant: TENANT });
    prev = sha256(entry);
    return { kind: "audit", seq: i + 1, entry };
  });
  const head = { task_id, tenant: TENANT, seq: 0, audit_seq: entries.length, audit_hash: prev };
  const counts = { entries: entries.length, versions: 0, lost: 0, records: 0, records_lost: 0, handoffs: 0 };
  return [{ kind: "task", task: head }, ...entries, { kind: "task_end", task_id, ...counts }];
}

test.each<[string, readonly number[], readonly string[]]>([
  ["rise", [-60, -59, -10], []],
  ["go back by the time of a paused process", [-60, -20, -34.9, -35], []],
  ["go back by more", [-60, -20, -35.1, -10], ["time_order auth/3"]],
  ["go back in small steps", [-20, -30, -35.1, -34, -45], ["time_order auth/3", "time_order auth/5"]],
])("times that %s", (_title, minutes, codes) => {
  const path = join(folder, "bundle.tar");
  const lines = [...linesOf("auth", minutes), ...linesOf("billing", [-500])];
  const pending = (task: string, count: number) =>
    Array.from({ length: count }, (_, i) => ({ task, seq: i + 1, pending: "unsigned_log" }));
  writeSmallBundle(path, { lines, proofs: [...pending("auth", minutes.length), ...pending("billing", 1)] });
  expect(judgeSmallBundle(path).codes).toEqual(codes);
});
