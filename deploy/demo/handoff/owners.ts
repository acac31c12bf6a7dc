/** Who owned a task, as its audit trail has it. */

/** Of an audit entry, what this is about. */
export interface Entry {
  readonly op: string;
  readonly actor: { readonly id: string; readonly type: string };
  readonly fence: number;
}

const TAKES: ReadonlySet<string> = new Set(["take", "acknowledge"]);
const WRITES: ReadonlySet<string> = new Set(["create", "update", "finalize", "link", "handoff", "confirm"]);

/** Held: each fence had one owner, each owner the next fence, and every write between two of them was made by the owner of that time. */
export function oneOwner(trail: readonly Entry[]): { held: boolean; owners: string[] } {
  const owners: string[] = [];
  let [held, owner, fence] = [true, "", 0];
  for (const { op, actor, fence: current } of trail) {
    if (TAKES.has(op)) {
      held &&= current === fence + 1;
      [owner, fence] = [actor.id, current];
      owners.push(`${owner} (fence ${fence})`);
    } else {
      held &&= current === fence && (!WRITES.has(op) || actor.id === owner);
    }
  }
  return { held: held && owners.length > 0, owners };
}
