/** The end of a run before the work is done. Thrown into the work, which should let it pass, and the reason of the aborted signal. */

/** `fenced`: another agent has the task. `stopped`: whoever started the agent wants it to end. */
export type Ending = "handed_off" | "fenced" | "stopped";

const TEXTS: Readonly<Record<Ending, string>> = {
  handed_off: "the task was handed off; nothing more is to be done here",
  fenced: "another agent has the task now; nothing more may be done here",
  stopped: "the agent was stopped",
};

export class RunOver extends Error {
  readonly ending: Ending;
  readonly handoffId: string | undefined;

  constructor(ending: Ending, o: { handoffId?: string; cause?: unknown } = {}) {
    super(TEXTS[ending], o.cause === undefined ? undefined : { cause: o.cause });
    this.name = "RunOver";
    this.ending = ending;
    this.handoffId = o.handoffId;
  }
}
