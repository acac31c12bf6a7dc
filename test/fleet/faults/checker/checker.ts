/** All checks of one round, and how much there was to check. */
import { checkCommands } from "./commands.ts";
import { checkEvents } from "./events.ts";
import { commandsOf, type Evidence, type Violation } from "./evidence.ts";
import { checkFences, countZombies, type ZombieCounts } from "./fences.ts";
import { countHandoffs, type HandoffCounts } from "./handoff/handoff-counts.ts";
import { storiesOf } from "./handoff/handoff-history.ts";
import { checkHandoffs } from "./handoff/handoffs.ts";
import { checkOrder } from "./order.ts";
import { checkOwners } from "./owners.ts";
import { checkQueued } from "./queued.ts";
import { checkRecoveries } from "./recovery/recoveries.ts";
import { countRecoveries, type RecoveryCounts } from "./recovery/recovery-counts.ts";
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
}

/** `kills`: when something was killed, by the wall clock; it only says what the kills met. */
export function judge(evidence: Evidence, kills: readonly number[] = []): Verdict {
  const { attempts, truth } = evidence;
  const commands = commandsOf(attempts);
  const tasks = [...truth.tasks.values()];
  const violations = [
    ...checkCommands(evidence, commands),
    ...checkTrails(evidence),
    ...checkOrder(evidence, commands),
    ...checkFences(evidence, commands),
    ...checkOwners(evidence, commands),
    ...checkHandoffs(evidence, commands),
    ...checkEvents(truth),
    ...checkQueued(evidence, commands),
    ...checkCorruption(evidence),
    ...checkRecoveries(evidence),
  ];
  return {
    violations,
    checked: {
      tasks: tasks.length,
      commands: commands.size,
      reads: attempts.filter(({ outcome }) => outcome === "read").length,
      audit_entries: tasks.reduce((sum, { entries }) => sum + entries.length, 0),
      versions: tasks.reduce((sum, { hashes }) => sum + hashes.size, 0),
      events: truth.events.length,
    },
    zombies: countZombies(evidence, commands),
    handoffs: countHandoffs(storiesOf(truth), commands, kills),
    recoveries: countRecoveries(evidence),
  };
}

/** Corruption that anybody met in a task of which nothing was damaged was made by the system itself. */
function checkCorruption({ attempts, damages }: Evidence): Violation[] {
  const damaged = new Set(damages.map(({ task }) => task));
  const met = attempts.filter(({ code, task }) => code === "CORRUPT" && !damaged.has(task));
  return met.map(({ task, op, call }) => ({
    kind: "corrupt",
    task,
    text: "stored state did not verify, although nobody damaged it",
    details: { op, call },
  }));
}
