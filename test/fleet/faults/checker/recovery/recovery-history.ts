/** The history of the recoveries of one task: their entries, each with the state of the recovery. */
import type { Entry, FinalState, FinalTask, Violation } from "../evidence.ts";
import { givesOwnership } from "../owners.ts";

export type RecoveryState = "idle" | "waiting" | "attempted" | "resumed" | "blocked";

/** An entry that changes the state of a recovery. */
export interface RecoveryMove {
  readonly entry: Entry;
  /** The state by the earlier entries. */
  readonly from: RecoveryState;
  readonly to: RecoveryState;
  /** The entry of the failure; null also after an operator's request, which is no failure. */
  readonly failure: Entry | null;
}

export interface RecoveryHistory {
  readonly task: string;
  readonly finalTask: FinalTask;
  readonly moves: readonly RecoveryMove[];
  /** The state after all moves. */
  readonly state: RecoveryState;
  /** The entries that cancel a handoff on which the recovery depends. */
  readonly withdrawn: readonly Entry[];
}

/** Whether the failed agent was restarted and took the task before an attempt; this counts as the attempt. */
export const isRestart = ({ op, attempt }: Entry): boolean => op === "settle" && attempt !== undefined;
/** Whether an entry spends an attempt of the budget. */
export const isAttempt = (entry: Entry): boolean => entry.op === "recover" || isRestart(entry);

export const OVER: ReadonlySet<string> = new Set(["completed", "failed", "cancelled"]);

const TO: Readonly<Record<string, RecoveryState>> = {
  fail: "waiting",
  retry: "waiting",
  recover: "attempted",
  resume: "resumed",
  settle: "idle",
  block: "blocked",
};

/** The histories of the tasks with a recovery. */
export function recoveryHistories({ tasks }: FinalState): RecoveryHistory[] {
  return [...tasks.values()].flatMap((finalTask) => {
    const history = historyOf(finalTask);
    return history.moves.length === 0 ? [] : [history];
  });
}

function historyOf(finalTask: FinalTask): RecoveryHistory {
  const moves: RecoveryMove[] = [];
  let state: RecoveryState = "idle";
  let failure: Entry | null = null;
  for (const entry of finalTask.entries) {
    if (!(entry.op in TO)) continue;
    if (entry.op === "fail") failure = entry;
    if (entry.op === "retry") failure = null;
    // Progress restores the budget and does not end a block.
    const isKept: boolean = state === "blocked" && entry.op === "settle" && entry.reason === "progress";
    const to: RecoveryState = isKept ? state : TO[entry.op]!;
    moves.push({ entry, from: state, to, failure });
    state = to;
  }
  return { task: finalTask.task, finalTask, moves, state, withdrawn: withdrawnIn(finalTask) };
}

/** The cancelled handoffs between a failure and the next owner or the end of the task. */
function withdrawnIn({ entries }: FinalTask): Entry[] {
  const withdrawn: Entry[] = [];
  let isLeft = false;
  for (const entry of entries) {
    const { op, state_to, reason } = entry;
    if (op === "fail" || op === "retry") isLeft = true;
    if (givesOwnership(entry) || OVER.has(state_to)) isLeft = false;
    if (isLeft && op === "cancel_handoff" && reason === "withdrawn") withdrawn.push(entry);
  }
  return withdrawn;
}

type Report = (kind: Violation["kind"], text: string, details?: Record<string, unknown>) => void;

/** Returns a function that adds violations of one task to `found`. */
export function recoveryReporter(found: Violation[], { task }: Pick<RecoveryHistory, "task">): Report {
  return (kind, text, details = {}) => {
    found.push({ kind, task, text, details });
  };
}
