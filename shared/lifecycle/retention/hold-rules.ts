/** The holds of a task after an entry of its trail. */
import type { PlacedHold } from "../../protocol/holds.ts";
import type { TaskRecord, TaskRetention } from "../task.ts";
import { type AuditedChange, nullableFact, textsFact } from "../trail/facts.ts";

export const NO_RETENTION: TaskRetention = { policy: null, holds: [] };

export function isHeld({ retention }: Pick<TaskRecord, "retention">): boolean {
  return (retention?.holds.length ?? 0) > 0;
}

/** The retention of the task after an entry `hold`. */
export function withHolds({ retention }: TaskRecord, change: AuditedChange): TaskRetention {
  const { policy, placed = [] } = retention ?? NO_RETENTION;
  const holds = textsFact(change, "holds");
  const name = nullableFact(change, "hold");
  const { actor: by, at } = change;
  const [reason, reference] = [nullableFact(change, "reason"), nullableFact(change, "case")];
  const others = placed.filter((one) => one.name !== name);
  const now = name === null ? placed : [...others, { name, by, at, reason, case: reference }];
  return withPlaced({ policy, holds }, now);
}

/** Without those that are released. */
export function withPlaced(
  { policy, holds }: TaskRetention,
  placed: readonly PlacedHold[] = [],
): TaskRetention {
  const kept = placed.filter(({ name }) => holds.includes(name));
  return { policy, holds, ...(kept.length > 0 && { placed: kept }) };
}
