/** Verifies the quarantine marks of a task against the entries of the audit trail, in both directions. */
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import { isCheckpointId } from "../../../protocol/ids.ts";
import { isLifted } from "../../corruption/quarantine.ts";
import { parseQuarantine } from "../../kv/key-elements.ts";
import type { TaskScrub } from "../scrub-reader.ts";

/** The number of marks in one task that a pass verifies. */
const MARKS_MAX = 200;

const REF = /^(.*)#([0-9]+)$/;

export async function readMarks({ reader, keys, task }: TaskScrub): Promise<readonly string[]> {
  const { rows } = await reader.getRange(keys.quarantines(task), { limit: MARKS_MAX });
  return rows.flatMap(({ key, value }) => {
    const { id, version } = parseQuarantine(key);
    const ref = `${id}#${version}`;
    return isLifted(value) ? [ref, `${LIFTED}${ref}`] : [ref];
  });
}

/** Before the reference of a mark that is lifted: it needs the entry of a restoration as well. */
const LIFTED = "lifted ";

/** The marks that none of these entries set. */
export function withoutAudited(
  marks: readonly string[] | null,
  entries: readonly AuditEntry[],
): readonly string[] | null {
  if (marks === null || marks.length === 0) return marks;
  const audited = new Set(
    entries
      .filter(({ op }) => op === "quarantine" || op === "restore")
      .map(({ op, checkpoint_id, version }) => {
        const ref = `${checkpoint_id}#${version ?? 0}`;
        return op === "restore" ? `${LIFTED}${ref}` : ref;
      }),
  );
  return marks.filter((mark) => !audited.has(mark));
}

/** Verifies that each mark set by an entry exists. Without it the version would be served again. */
export async function verifyMarked(
  scrub: TaskScrub,
  entries: readonly (AuditEntry | undefined)[],
): Promise<void> {
  const { reader, keys, task } = scrub;
  const set = entries.flatMap((entry) => {
    const id = entry?.op === "quarantine" ? entry.checkpoint_id : null;
    return typeof id === "string" && isCheckpointId(id) ? [{ id, version: Number(entry?.version ?? 0) }] : [];
  });
  if (set.length === 0) return;
  const marks = await reader.getMany(set.map(({ id, version }) => keys.quarantine(task, id, version)));
  for (const [i, { id, version }] of set.entries()) {
    if (marks[i] !== undefined) continue;
    const details = "the version was quarantined, and its mark is lost";
    scrub.note({ kind: "audit", checkpoint_id: id, version, details });
  }
}

/** Notes the marks whose entry was not found; null: the trail is damaged, so nothing is known. */
export function verifyMarks(scrub: TaskScrub, marks: readonly string[] | null): void {
  for (const mark of marks ?? []) {
    const isLiftedMark = mark.startsWith(LIFTED);
    const [, id = null, version] = REF.exec(isLiftedMark ? mark.slice(LIFTED.length) : mark) ?? [];
    const details = isLiftedMark
      ? "the quarantine of the version is lifted, and no entry of the trail records it"
      : "the version is quarantined, and no entry of the trail records it";
    scrub.note({ kind: "audit", checkpoint_id: id, version: Number(version), details });
  }
}
