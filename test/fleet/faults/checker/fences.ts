/**
 * Fences: at its place in the task's order, every command that carried a fence carried the current one, and a command without a
 * fence found no owner. Counted is also how often superseded agents tried: a check that nobody tries proves nothing.
 */
import { type Command, type Evidence, ownEntries, placesOf, type Violation } from "./evidence.ts";
import { isDeposing } from "./owners.ts";

export interface ZombieCounts {
  /** Calls with a fence that was known to be superseded before they began. */
  readonly tried: number;
  /** Told so, at once or by a dead letter. */
  readonly refused: number;
  /** Got no answer; that none of them was applied is checked like everything else. */
  readonly unanswered: number;
  /** Of those tried, how many had lost their task by a handoff that another agent accepted. */
  readonly after_handoff: number;
}

export function checkFences({ truth }: Evidence, commands: ReadonlyMap<string, Command>): Violation[] {
  const found: Violation[] = [];
  for (const { task, entries } of truth.tasks.values()) {
    let fence = 0;
    let owner: string | null = null;
    const own = new Set(ownEntries(entries));
    for (const entry of entries) {
      if (isDeposing(entry)) {
        fence += 1;
        owner = null;
      }
      if (!own.has(entry)) continue;
      const { seq, op, command_id, owner_to } = entry;
      const isTaking = op === "take" || op === "acknowledge";
      const given = commands.get(command_id!)?.attempts[0]?.fence;
      const isAllowed = given === undefined ? owner === null || isTaking : given === fence;
      if (!isAllowed) {
        found.push({
          kind: "zombie_accepted",
          task,
          text: "a command was applied under a fence that was not the current one",
          details: { seq, op, command_id, given: given ?? null, fence, owner },
        });
      }
      if (isTaking) fence += 1;
      if (isTaking || op === "release") owner = owner_to ?? null;
    }
  }
  return found;
}

export function countZombies(
  { attempts, truth }: Evidence,
  commands: ReadonlyMap<string, Command>,
): ZombieCounts {
  const places = placesOf(truth);
  /** By task: when each fence was known to be given. */
  const takes = new Map<string, { fence: number; knownAt: number; op: string }[]>();
  for (const command of commands.values()) {
    const fence = command.committed?.fence;
    const op = places.get(command.id)?.[0]?.entry.op;
    if (typeof fence !== "number" || (op !== "take" && op !== "acknowledge")) continue;
    const known = takes.get(command.task) ?? [];
    known.push({ fence, knownAt: command.knownAt, op });
    takes.set(command.task, known);
  }
  const zombies = attempts.filter(
    ({ fence, task, begin, command_id, copy }) =>
      fence !== undefined &&
      // A late copy of a command that was applied in its time rightly gets its answer again.
      (copy === undefined || commands.get(command_id!)?.committed === undefined) &&
      (takes.get(task) ?? []).some((take) => take.fence > fence && take.knownAt < begin),
  );
  const dead = new Set(truth.dead.map(({ command_id }) => command_id));
  const refused = zombies.filter(({ outcome, command_id }) => outcome === "refused" || dead.has(command_id!));
  const accepted = zombies.filter(({ outcome }) => outcome === "committed").length;
  const unanswered = zombies.length - refused.length - accepted;
  const lost = zombies.filter(({ task, fence, begin }) =>
    (takes.get(task) ?? []).some(
      (take) => take.op === "acknowledge" && take.fence === fence! + 1 && take.knownAt < begin,
    ),
  );
  return { tried: zombies.length, refused: refused.length, unanswered, after_handoff: lost.length };
}
