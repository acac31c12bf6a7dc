/** The end of a run before the work is done: thrown into the work, which should let it pass, and the reason of the aborted signal. */

/** `fenced`: the agent's ownership was revoked or passed to another agent. `stopped`: the agent's signal was aborted. */
export type RunEnding = "handed_off" | "fenced" | "stopped";

export interface RunEndedOptions {
  readonly handoffId?: string;
  /** The owner after a fenced run; null or undefined: none, or not known. */
  readonly owner?: string | null;
  readonly cause?: unknown;
}

const NOTHING_MORE = "this run must do nothing more";

export class RunEnded extends Error {
  readonly ending: RunEnding;
  readonly handoffId: string | undefined;

  constructor(ending: RunEnding, o: RunEndedOptions = {}) {
    super(textOf(ending, o.owner ?? null), o.cause === undefined ? undefined : { cause: o.cause });
    this.name = "RunEnded";
    this.ending = ending;
    this.handoffId = o.handoffId;
  }
}

function textOf(ending: RunEnding, owner: string | null): string {
  if (ending === "stopped") return "the agent was stopped";
  if (ending === "handed_off") return `the task was handed off; ${NOTHING_MORE}`;
  if (owner !== null) return `the task was passed to ${owner}; ${NOTHING_MORE}`;
  return `the ownership of this task was revoked or passed to another agent; ${NOTHING_MORE}`;
}
