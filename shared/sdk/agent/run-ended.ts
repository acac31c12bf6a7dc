/** The end of a run before the work is done: thrown into the work, which should let it pass, and the reason of the aborted signal. */

/** `fenced`: another agent has taken the task. `stopped`: the agent's signal was aborted. */
export type RunEnding = "handed_off" | "fenced" | "stopped";

const TEXTS: Readonly<Record<RunEnding, string>> = {
  handed_off: "the task was handed off; this run must do nothing more",
  fenced: "another agent has taken the task; this run must do nothing more",
  stopped: "the agent was stopped",
};

export class RunEnded extends Error {
  readonly ending: RunEnding;
  readonly handoffId: string | undefined;

  constructor(ending: RunEnding, o: { handoffId?: string; cause?: unknown } = {}) {
    super(TEXTS[ending], o.cause === undefined ? undefined : { cause: o.cause });
    this.name = "RunEnded";
    this.ending = ending;
    this.handoffId = o.handoffId;
  }
}
