/** The files of a task in the mirror as a newer version of Fleet would have written them. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { canonicalText, sha256Hex } from "../../../shared/integrity/canonical.ts";

/** The task has one checkpoint and one audit entry. */
export function newerTask(folder: string, id: string): void {
  const path = join(folder, `chk-${id}.json`);
  const { compliance, ...checkpoint } = JSON.parse(readFileSync(path, "utf8"));
  const { hash: _hash, ...unsealed } = compliance;
  const newer = { ...checkpoint, schema_version: "9.0", compliance: unsealed };
  const hash = sha256Hex(canonicalText(newer));
  writeFileSync(path, canonicalText({ ...newer, compliance: { ...unsealed, hash } }));
  const trail = join(folder, "audit.jsonl");
  const entry = JSON.parse(readFileSync(trail, "utf8"));
  writeFileSync(trail, `${canonicalText({ ...entry, new_hash: hash })}\n`);
}
