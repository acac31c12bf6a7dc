/** The owners of a task, read from its audit trail. */

/** The fields of an audit entry that ownership depends on. */
export interface OwnershipEntry {
  readonly op: string;
  readonly actor: { readonly id: string; readonly type: string };
  readonly fence: number;
}

const TAKES: ReadonlySet<string> = new Set(["take", "acknowledge"]);
/** After these the task has no owner until an agent takes it. */
const REVOCATIONS: ReadonlySet<string> = new Set(["fail", "retry"]);
const WRITES: ReadonlySet<string> = new Set(["create", "update", "finalize", "link", "handoff", "confirm"]);

/** `isExclusive`: every fence had at most one owner, every owner a fence of its own, and only the owner of the time wrote. */
export function ownerHistory(trail: readonly OwnershipEntry[]): { isExclusive: boolean; owners: string[] } {
  const owners: string[] = [];
  let [isExclusive, owner, fence] = [true, "", 0];
  for (const { op, actor, fence: current } of trail) {
    if (TAKES.has(op) || REVOCATIONS.has(op)) {
      isExclusive &&= current === fence + 1;
      [owner, fence] = [TAKES.has(op) ? actor.id : "", current];
      owners.push(`${owner || "no owner"} (fence ${fence})`);
    } else {
      // The watchdog requests a handoff for a task without an owner.
      const isPermitted =
        actor.id === owner || (op === "handoff" && owner === "" && actor.type === "service");
      isExclusive &&= current === fence && (!WRITES.has(op) || isPermitted);
    }
  }
  return { isExclusive: isExclusive && owners.length > 0, owners };
}
