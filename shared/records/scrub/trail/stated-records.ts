/**
 * Verifies the records of a mission against the entries that state them: each record is there, is not older than
 * the newest entry about it, and has the bytes that this entry states.
 */

import type { AuditEntry } from "../../../lifecycle/replay.ts";
import { statedRecordsOf } from "../../../lifecycle/trail/stated-record.ts";
import { readable } from "../../kv/codec.ts";
import { openRecord, recordHash, recordKeyOf } from "../../mission/sealed-record.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import { isShreddedTask } from "../task/shredded.ts";

interface Stated {
  readonly seq: number;
  readonly hash: string;
}

export async function verifyStatedRecords(
  scrub: TaskScrub,
  entries: readonly (AuditEntry | undefined)[],
): Promise<void> {
  const newest = newestOf(entries);
  if (newest.size === 0 || (await isShreddedTask(scrub))) return;
  const { reader, keys, task } = scrub;
  const known = [...newest].flatMap(([name, stated]) => {
    const key = recordKeyOf(keys, task, name);
    return key === null ? [] : [{ name, key, stated }];
  });
  const values = await reader.getMany(known.map(({ key }) => key));
  for (const [i, { name, stated }] of known.entries()) {
    const value = values[i];
    const opened = value === undefined ? undefined : readable(() => openRecord(value));
    const problem =
      value === undefined
        ? "is lost"
        : opened == null
          ? "cannot be read"
          : opened.auditSeq < stated.seq
            ? "is older than the trail"
            : opened.auditSeq === stated.seq && recordHash(value) !== stated.hash
              ? "differs from the trail"
              : null;
    if (problem !== null) scrub.step.noteOnce(scrub.tenant, task, ofTask("mission", `${name} ${problem}`));
  }
}

function newestOf(entries: readonly (AuditEntry | undefined)[]): ReadonlyMap<string, Stated> {
  const newest = new Map<string, Stated>();
  for (const entry of entries) {
    if (typeof entry?.seq !== "number") continue;
    for (const { name, hash } of statedRecordsOf(entry)) newest.set(name, { seq: entry.seq, hash });
  }
  return newest;
}
