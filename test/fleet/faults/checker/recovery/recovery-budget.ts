/**
 * The durable breaker: one attempt for each failure and none without one, counted before it is made, no more of them than the policy
 * grants between two progresses or in its window, and progress is nothing but more different items done than ever. What is progress is
 * read out of the commands as their agents sent them.
 */
import { POLICY } from "../../environment/policy.ts";
import { kindOf } from "../../workers/kinds.ts";
import type { Entry, Evidence, Violation } from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { lineagesOf } from "../lineage.ts";
import {
  isAttempt,
  isRestart,
  OVER,
  type RecoveryMove,
  type RecoveryStory,
  sayingOf,
} from "./recovery-history.ts";

const { recovery: RULES } = POLICY.defaults;
/** Of a pause, the random part may take so much. */
const PAUSE_LEAST = 0.5;
const SLACK_MS = 50;

export function checkBudgets(evidence: Evidence, stories: readonly RecoveryStory[]): Violation[] {
  return stories.flatMap((story) => [
    ...checkOrder(story),
    ...checkAttempts(story),
    ...checkProgress(story, evidence),
  ]);
}

/** From where a move of a recovery may begin. */
const BEGINS: Readonly<Record<string, readonly string[]>> = {
  fail: ["idle", "waiting", "attempted", "resumed"],
  retry: ["idle", "waiting", "attempted", "resumed", "blocked"],
  recover: ["waiting"],
  resume: ["attempted"],
  settle: ["idle", "waiting", "attempted", "resumed", "blocked"],
  // From `idle`: a handoff had taken its place, and was taken back.
  block: ["idle", "waiting", "attempted"],
};

function checkOrder(story: RecoveryStory): Violation[] {
  const found: Violation[] = [];
  const say = sayingOf(found, story);
  for (const { entry, from, to } of story.moves) {
    const { seq, op, recovery_from = from, recovery_to = to, state_from } = entry;
    if (!BEGINS[op]!.includes(from) || recovery_from !== from || recovery_to !== to) {
      const kind = op === "recover" ? "recovered_twice" : "recovery_unjustified";
      say(kind, "a recovery does not go on from where it was", { seq, op, from, recovery_from, recovery_to });
    }
    if (op !== "settle" && OVER.has(state_from ?? "")) {
      say("ended_restarted", "a task that was over was recovered", { seq, op, state_from });
    }
  }
  return found;
}

function checkAttempts(story: RecoveryStory): Violation[] {
  const found: Violation[] = [];
  const say = sayingOf(found, story);
  let attempts = 0;
  const rungs: Record<string, number> = {};
  const times: number[] = [];
  for (const { entry, failure } of story.moves) {
    if (isProgress(entry)) {
      attempts = 0;
      for (const rung of Object.keys(rungs)) delete rungs[rung];
    }
    if (!isAttempt(entry)) continue;
    const { seq, attempt, rung = "", handoff_id } = entry;
    attempts += 1;
    rungs[rung] = (rungs[rung] ?? 0) + 1;
    times.push(timeOf(entry));
    const lately = times.filter((at) => at > timeOf(entry) - RULES.window_ms).length;
    const isWithin =
      (rungs.latest ?? 0) <= RULES.attempts &&
      (rungs.previous ?? 0) <= RULES.previous_attempts &&
      lately <= RULES.window_attempts;
    if (!isWithin || attempt !== attempts) {
      say("budget_overdrawn", "more was attempted than the policy grants, or it was not counted", {
        ...{ seq, attempt, counted: attempts, rungs: { ...rungs }, lately },
      });
    }
    if (isRestart(entry)) continue;
    const next = story.truth.entries[seq];
    if (next?.op !== "handoff" || next.handoff_id !== handoff_id) {
      say("recovery_unjustified", "an attempt was recorded and not made", { seq, next: next?.op ?? null });
    }
    const pauseMs = failure === null ? 0 : timeOf(entry) - timeOf(failure);
    if (failure?.action === "back_off" && pauseMs < PAUSE_LEAST * RULES.back_off_ms - SLACK_MS) {
      say("recovery_unjustified", "an attempt did not wait until its time", { seq, pause_ms: pauseMs });
    }
  }
  return found;
}

export const isProgress = ({ op, reason }: Entry): boolean => op === "settle" && reason === "progress";

/**
 * The budget comes back with an entry for it, right behind a checkpoint with more different items than any before, and with each. Only
 * of workers: the others write what comes to their minds.
 */
function checkProgress(story: RecoveryStory, { sent, damages }: Evidence): Violation[] {
  const found: Violation[] = [];
  if (kindOf(story.task) === null) return found;
  const say = sayingOf(found, story);
  const damaged = new Set(damages.map(({ checkpoint_id }) => checkpoint_id));
  const returned = new Set(
    story.moves.flatMap(({ entry }) => (isProgress(entry) ? [entry.command_id!] : [])),
  );
  const after = afterEach(story);
  let most = 0;
  /** With what was lost afterwards: the fleet may have seen it, and need not count it twice. */
  let ever = 0;
  for (const { id, seq, items } of lineagesOf(story.truth, sent)) {
    if (items === null) continue;
    const isMore = items > most;
    if (returned.has(id) && !isMore) {
      say("budget_returned", "the budget was given back, and nothing new had got done", { seq, items, most });
    }
    if (!returned.has(id) && items > ever && after(seq) === "resumed") {
      say("recovery_unjustified", "something new got done, and the budget was not given back", {
        seq,
        items,
      });
    }
    ever = Math.max(ever, items);
    // What was lost may be done once more.
    if (!damaged.has(id)) most = Math.max(most, items);
  }
  return found;
}

/** The state of the recovery when an entry and what its command made besides is done. */
function afterEach({ moves, truth }: RecoveryStory): (seq: number) => string {
  return (seq) => {
    const command = truth.entries[seq - 1]?.command_id;
    const isBy = ({ entry }: RecoveryMove): boolean => entry.seq < seq || entry.command_id === command;
    return moves.findLast(isBy)?.to ?? "idle";
  };
}
