/** All checks of one round, with the number of checked records. */
import { checkCommands } from "./commands.ts";
import { checkEvents } from "./events.ts";
import { commandsOf, type Evidence, type Violation } from "./evidence.ts";
import { checkFences, countZombies, type ZombieCounts } from "./fences.ts";
import { countHandoffs, type HandoffCounts } from "./handoff/handoff-counts.ts";
import { handoffHistories } from "./handoff/handoff-history.ts";
import { checkHandoffs } from "./handoff/handoffs.ts";
import { checkOrder } from "./order.ts";
import { checkOwners } from "./owners.ts";
import { checkQueued } from "./queue-order.ts";
import { checkRecoveries } from "./recovery/recoveries.ts";
import { countRecoveries, type RecoveryCounts } from "./recovery/recovery-counts.ts";
import { checkRemovals, countRemovals } from "./retention/removals.ts";
import { checkTrails } from "./trail.ts";

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly checked: {
    readonly tasks: number;
    readonly commands: number;
    readonly reads: number;
    readonly audit_entries: number;
    readonly versions: number;
    readonly events: number;
  };
  readonly zombies: ZombieCounts;
  readonly handoffs: HandoffCounts;
  readonly recoveries: RecoveryCounts;
  readonly removals: Readonly<Record<string, number>>;
}

/** `kills` are the times of the kills by the wall clock, which are used for counts only. */
export function judge(evidence: Evidence, kills: readonly number[] = []): Verdict {
  const { attempts, finalState } = evidence;
  const commands = commandsOf(attempts);
  const tasks = [...finalState.tasks.values()];
  const violations = [
    ...checkCommands(evidence, commands),
    ...checkTrails(evidence),
    ...checkOrder(evidence, commands),
    ...checkFences(evidence, commands),
    ...checkOwners(evidence, commands),
    ...checkHandoffs(evidence, commands),
    ...checkEvents(finalState),
    ...checkQueued(evidence, commands),
    ...checkCorruption(evidence),
    ...checkRecoveries(evidence),
    ...checkRemovals(evidence),
    ...checkScrub(evidence),
  ];
  return {
    violations,
    checked: {
      tasks: tasks.length,
      commands: commands.size,
      reads: attempts.filter(({ outcome }) => outcome === "read").length,
      audit_entries: tasks.reduce((sum, { entries }) => sum + entries.length, 0),
      versions: tasks.reduce((sum, { hashes }) => sum + hashes.size, 0),
      events: finalState.events.length,
    },
    zombies: countZombies(evidence, commands),
    handoffs: countHandoffs(handoffHistories(finalState), commands, kills),
    recoveries: countRecoveries(evidence),
    removals: countRemovals(evidence),
  };
}

/** The scrub may report nothing but the damage of the run. */
function checkScrub({ finalState, damages }: Evidence): Violation[] {
  const damaged = new Set(damages.map(({ task }) => task));
  const wrong = finalState.findings.filter(({ task_id }) => !damaged.has(task_id));
  return wrong.map(({ task_id: task, ...details }) => ({
    kind: "scrub_failed",
    task,
    text: "the scrub found damage that the run did not cause",
    details,
  }));
}

/** Corruption in a task without damage was caused by the system itself. */
function checkCorruption({ attempts, damages }: Evidence): Violation[] {
  const damaged = new Set(damages.map(({ task }) => task));
  const corrupt = attempts.filter(({ code, task }) => code === "CORRUPT" && !damaged.has(task));
  return corrupt.map(({ task, op, call }) => ({
    kind: "corrupt",
    task,
    text: "the stored state is corrupt without damage",
    details: { op, call },
  }));
}
