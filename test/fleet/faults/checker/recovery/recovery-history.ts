/** All that is left of the recoveries of one task: its entries of them, each with what had become of the recovery by then. */
import type { Entry, TaskTruth, Truth, Violation } from "../evidence.ts";
import { isTaking } from "../owners.ts";

export type RecoveryState = "idle" | "waiting" | "attempted" | "resumed" | "blocked";

/** An entry that moves a recovery. */
export interface RecoveryMove {
  readonly entry: Entry;
  /** Of the trail, counted by itself. */
  readonly from: RecoveryState;
  readonly to: RecoveryState;
  /** The one that it is about: of a failure itself. */
  readonly failure: Entry | null;
}

export interface RecoveryStory {
  readonly task: string;
  readonly truth: TaskTruth;
  readonly moves: readonly RecoveryMove[];
  /** What the moves come to. */
  readonly state: RecoveryState;
  /** Entries by which somebody took a handoff back while nothing else would have brought the task on after a failure. */
  readonly withdrawn: readonly Entry[];
}

/** Whoever failed was started again, and took the task by name before an attempt was made: that was it. */
export const isRestart = ({ op, attempt }: Entry): boolean => op === "settle" && attempt !== undefined;
/** What takes an attempt out of the budget. */
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

/** Of the tasks that anything of the kind happened to. */
export function recoveriesOf({ tasks }: Truth): RecoveryStory[] {
  return [...tasks.values()].flatMap((truth) => {
    const story = storyOf(truth);
    return story.moves.length === 0 ? [] : [story];
  });
}

function storyOf(truth: TaskTruth): RecoveryStory {
  const moves: RecoveryMove[] = [];
  let state: RecoveryState = "idle";
  let failure: Entry | null = null;
  /** Handoffs that are attempts at recovery. */
  const attempts = new Set<string>();
  for (const entry of truth.entries) {
    if (entry.op === "recover" && entry.handoff_id !== undefined) attempts.add(entry.handoff_id);
    if (!isMove(entry, attempts)) continue;
    if (entry.op === "fail") failure = entry;
    const to = TO[entry.op]!;
    moves.push({ entry, from: state, to, failure });
    state = to;
  }
  return { task: truth.task, truth, moves, state, withdrawn: withdrawnIn(truth) };
}

/** Those after a failure, before anybody had the task again, or ended it. */
function withdrawnIn({ entries }: TaskTruth): Entry[] {
  const withdrawn: Entry[] = [];
  let isLeft = false;
  for (const entry of entries) {
    const { op, state_to, reason } = entry;
    if (op === "fail" || op === "retry") isLeft = true;
    if (isTaking(entry) || OVER.has(state_to)) isLeft = false;
    if (isLeft && op === "cancel_handoff" && reason === "withdrawn") withdrawn.push(entry);
  }
  return withdrawn;
}

/** A handoff that comes to nothing blocks its task; the recovery ends with it if it was an attempt, and not for the checkpoint alone. */
function isMove(entry: Entry, attempts: ReadonlySet<string>): boolean {
  if (entry.op !== "block") return entry.op in TO;
  if (entry.handoff_id === undefined) return true;
  return attempts.has(entry.handoff_id) && entry.reason !== "hash_broken";
}

type Say = (kind: Violation["kind"], text: string, details?: Record<string, unknown>) => void;

/** Adds violations of one task to those found. */
export function sayingOf(found: Violation[], { task }: Pick<RecoveryStory, "task">): Say {
  return (kind, text, details = {}) => {
    found.push({ kind, task, text, details });
  };
}
