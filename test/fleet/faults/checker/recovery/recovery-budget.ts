/**
 * The checks of the budget: one attempt for each failure and each request of an operator, and none without one of them, counted in advance,
 * and no more attempts after failures than the policy allows between two events that restore the budget or in its window. Progress means more
 * different completed items than ever before, by the commands that the agents sent.
 */
import { POLICY } from "../../environment/policy.ts";
import { kindOf } from "../../workers/task-kinds.ts";
import type { Entry, Evidence, Violation } from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { lineagesOf } from "../lineage.ts";
import {
  isAttempt,
  isRestart,
  OVER,
  type RecoveryHistory,
  type RecoveryMove,
  recoveryReporter,
} from "./recovery-history.ts";

const { recovery: RULES } = POLICY.defaults;
/** The smallest share of a backoff that remains after its random reduction. */
const BACK_OFF_LEAST = 0.5;
const SLACK_MS = 50;

export function checkBudgets(evidence: Evidence, histories: readonly RecoveryHistory[]): Violation[] {
  return histories.flatMap((history) => [
    ...checkOrder(history),
    ...checkAttempts(history),
    ...checkProgress(history, evidence),
  ]);
}

/** The states in which a recovery may make each transition. */
const ALLOWED_FROM: Readonly<Record<string, readonly string[]>> = {
  fail: ["idle", "waiting", "attempted", "resumed"],
  retry: ["idle", "waiting", "attempted", "resumed", "blocked"],
  recover: ["waiting"],
  resume: ["attempted"],
  settle: ["idle", "waiting", "attempted", "resumed", "blocked"],
  // From `idle` and `resumed`: a handoff of the task was escalated, rejected or cancelled.
  block: ["idle", "waiting", "attempted", "resumed"],
};

function checkOrder(history: RecoveryHistory): Violation[] {
  const found: Violation[] = [];
  const report = recoveryReporter(found, history);
  for (const { entry, from, to } of history.moves) {
    const { seq, op, recovery_from = from, recovery_to = to, state_from } = entry;
    if (!ALLOWED_FROM[op]!.includes(from) || recovery_from !== from || recovery_to !== to) {
      const kind = op === "recover" ? "recovered_twice" : "recovery_unjustified";
      report(kind, "a recovery does not continue from its state", {
        seq,
        op,
        from,
        recovery_from,
        recovery_to,
      });
    }
    if (op !== "settle" && OVER.has(state_from ?? "")) {
      report("ended_restarted", "an ended task was recovered", { seq, op, state_from });
    }
  }
  return found;
}

function checkAttempts(history: RecoveryHistory): Violation[] {
  const found: Violation[] = [];
  const report = recoveryReporter(found, history);
  let attempts = 0;
  const rungs: Record<string, number> = {};
  const times: number[] = [];
  for (const { entry, failure } of history.moves) {
    if (restoresBudget(entry)) {
      attempts = 0;
      for (const rung of Object.keys(rungs)) delete rungs[rung];
    }
    if (isReset(entry)) times.length = 0;
    if (!isAttempt(entry)) continue;
    const { seq, attempt, rung = "", handoff_id } = entry;
    attempts += 1;
    rungs[rung] = (rungs[rung] ?? 0) + 1;
    times.push(timeOf(entry));
    const lately = times.filter((at) => at > timeOf(entry) - RULES.window_ms).length;
    const allowed = rung === "latest" ? RULES.attempts : RULES.previous_attempts;
    // What an operator requests has no limit.
    const isWithin = failure === null || (rungs[rung]! <= allowed && lately <= RULES.window_attempts);
    if (!isWithin || attempt !== attempts) {
      report("budget_overdrawn", "an attempt exceeds the policy or was not counted", {
        ...{ seq, attempt, counted: attempts, rungs: { ...rungs }, lately },
      });
    }
    if (isRestart(entry)) continue;
    const next = history.finalTask.entries[seq];
    if (next?.op !== "handoff" || next.handoff_id !== handoff_id) {
      report("recovery_unjustified", "an attempt was recorded and not made", { seq, next: next?.op ?? null });
    }
    const pauseMs = failure === null ? 0 : timeOf(entry) - timeOf(failure);
    if (failure?.action === "back_off" && pauseMs < BACK_OFF_LEAST * RULES.back_off_ms - SLACK_MS) {
      report("recovery_unjustified", "an attempt was made before it was due", { seq, pause_ms: pauseMs });
    }
  }
  return found;
}

export const isProgress = ({ op, reason }: Entry): boolean => op === "settle" && reason === "progress";

/** An operator's request restores the whole budget, with the window. */
export const isReset = ({ op, reset }: Entry): boolean => op === "retry" && reset === "yes";

export const restoresBudget = (entry: Entry): boolean => isProgress(entry) || isReset(entry);

/**
 * Checks that the budget is restored by an entry directly after every checkpoint with more different items than before, and by nothing else.
 * This applies to workers only, because the other agents write random items.
 */
function checkProgress(history: RecoveryHistory, { sent, damages }: Evidence): Violation[] {
  const found: Violation[] = [];
  if (kindOf(history.task) === null) return found;
  const report = recoveryReporter(found, history);
  const damaged = new Set(damages.map(({ checkpoint_id }) => checkpoint_id));
  const restored = new Set(
    history.moves.flatMap(({ entry }) => (isProgress(entry) ? [entry.command_id!] : [])),
  );
  const after = afterEach(history);
  let most = 0;
  /** The maximum including items that were lost later: the fleet may have counted them before. */
  let ever = 0;
  for (const { id, seq, items } of lineagesOf(history.finalTask, sent)) {
    if (items === null) continue;
    const isMore = items > most;
    if (restored.has(id) && !isMore) {
      report("budget_returned", "the budget was restored without progress", { seq, items, most });
    }
    if (!restored.has(id) && items > ever && after(seq) === "resumed") {
      report("recovery_unjustified", "the budget was not restored after progress", {
        seq,
        items,
      });
    }
    ever = Math.max(ever, items);
    // A lost item may be completed again.
    if (!damaged.has(id)) most = Math.max(most, items);
  }
  return found;
}

/** The state of the recovery after an entry and the additional transitions of its command. */
function afterEach({ moves, finalTask }: RecoveryHistory): (seq: number) => string {
  return (seq) => {
    const command = finalTask.entries[seq - 1]?.command_id;
    const isBy = ({ entry }: RecoveryMove): boolean => entry.seq < seq || entry.command_id === command;
    return moves.findLast(isBy)?.to ?? "idle";
  };
}
