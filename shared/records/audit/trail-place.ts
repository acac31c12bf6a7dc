/** The reference of a version to the audit entry that made it: `audit/TENANT/TASK#SEQ`. */
const REF = /^(.*)#([1-9][0-9]*)$/;

/** The number of the entry; null: the reference names no entry of this task. */
export function trailPlace(ref: string, tenant: string, task: string): number | null {
  const [, trail, seq] = REF.exec(ref) ?? [];
  return trail === `audit/${tenant}/${task}` ? Number(seq) : null;
}
