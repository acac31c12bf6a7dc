/**
 * The check of the fences: every applied command had the current fence of its position in the task's order, and a command without a fence was
 * applied to a task without an owner. Only the commands of operators need no fence. The attempts of superseded agents are counted, because
 * without them the check proves nothing.
 */
import {
  applicationsOf,
  type Command,
  commandEntries,
  type Evidence,
  OF_OPERATORS,
  type Violation,
} from "./evidence.ts";
import { revokesOwnership } from "./owners.ts";

export interface ZombieCounts {
  /** The calls whose fence was superseded, by a known answer, before they began. */
  readonly tried: number;
  /** The refused calls, also those refused by a dead letter. */
  readonly refused: number;
  /** The calls without an answer. The other checks verify that none of them was applied. */
  readonly unanswered: number;
  /** The calls of agents that were superseded by a handoff. */
  readonly after_handoff: number;
}

export function checkFences({ finalState }: Evidence, commands: ReadonlyMap<string, Command>): Violation[] {
  const found: Violation[] = [];
  for (const { task, entries } of finalState.tasks.values()) {
    let fence = 0;
    let owner: string | null = null;
    const own = new Set(commandEntries(entries));
    for (const entry of entries) {
      if (revokesOwnership(entry)) {
        fence += 1;
        owner = null;
      }
      if (!own.has(entry)) continue;
      const { seq, op, command_id, owner_to } = entry;
      const givesOwnership = op === "take" || op === "acknowledge";
      const given = commands.get(command_id!)?.attempts[0]?.fence;
      const needsFence = owner !== null && !givesOwnership && !OF_OPERATORS.has(op);
      const isAllowed = given === undefined ? !needsFence : given === fence;
      if (!isAllowed) {
        found.push({
          kind: "zombie_accepted",
          task,
          text: "a command was applied under a fence that was not the current one",
          details: { seq, op, command_id, given: given ?? null, fence, owner },
        });
      }
      if (givesOwnership) fence += 1;
      if (givesOwnership || op === "release") owner = owner_to ?? null;
    }
  }
  return found;
}

export function countZombies(
  { attempts, finalState }: Evidence,
  commands: ReadonlyMap<string, Command>,
): ZombieCounts {
  const applications = applicationsOf(finalState);
  /** The known fences of each task with the times of their answers. */
  const takes = new Map<string, { fence: number; knownAt: number; op: string }[]>();
  for (const command of commands.values()) {
    const fence = command.committed?.fence;
    const op = applications.get(command.id)?.[0]?.entry.op;
    if (typeof fence !== "number" || (op !== "take" && op !== "acknowledge")) continue;
    const known = takes.get(command.task) ?? [];
    known.push({ fence, knownAt: command.knownAt, op });
    takes.set(command.task, known);
  }
  const zombies = attempts.filter(
    ({ fence, task, begin, command_id, copy }) =>
      fence !== undefined &&
      // A late copy of an applied command correctly receives the first answer.
      (copy === undefined || commands.get(command_id!)?.committed === undefined) &&
      (takes.get(task) ?? []).some((take) => take.fence > fence && take.knownAt < begin),
  );
  const dead = new Set(finalState.dead.map(({ command_id }) => command_id));
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
