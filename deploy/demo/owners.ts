/** Who owned a task, as its audit trail has it. */

/** Of an audit entry, what this is about. */
export interface Entry {
  readonly op: string;
  readonly actor: { readonly id: string; readonly type: string };
  readonly fence: number;
}

const TAKES: ReadonlySet<string> = new Set(["take", "acknowledge"]);
/** Whoever had the task has lost it, and nobody has it until somebody takes it. */
const DEPOSES: ReadonlySet<string> = new Set(["fail", "retry"]);
const WRITES: ReadonlySet<string> = new Set(["create", "update", "finalize", "link", "handoff", "confirm"]);

/** Held: each fence had one owner or none, each owner a fence of its own, and every write between two of them was made by the owner of that time. */
export function oneOwner(trail: readonly Entry[]): { held: boolean; owners: string[] } {
  const owners: string[] = [];
  let [held, owner, fence] = [true, "", 0];
  for (const { op, actor, fence: current } of trail) {
    if (TAKES.has(op) || DEPOSES.has(op)) {
      held &&= current === fence + 1;
      [owner, fence] = [TAKES.has(op) ? actor.id : "", current];
      owners.push(`${owner || "nobody"} (fence ${fence})`);
    } else {
      // The watchdog asks for a handoff on behalf of a task that nobody has.
      const isOwners = actor.id === owner || (op === "handoff" && owner === "" && actor.type === "service");
      held &&= current === fence && (!WRITES.has(op) || isOwners);
    }
  }
  return { held: held && owners.length > 0, owners };
}
