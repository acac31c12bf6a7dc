/** What a command came to. An error is thrown instead; then nothing happened, except for TIMEOUT, where it is not known. */
import type { CommittedAnswer } from "../protocol/answers.ts";
import type { Camel } from "./casing.ts";

/** In the store, durable, with its audit entry and event. */
export interface Committed extends Omit<Camel<CommittedAnswer>, "status"> {
  readonly outcome: "committed";
}

/** The store is away; the command is durable in the queue and will be applied once, in order. */
export interface Queued {
  readonly outcome: "queued";
  readonly commandId: string;
  readonly taskId: string;
  /** A create's checkpoint takes the command's id, so it is known by name already. */
  readonly checkpointId: string;
}

export type Outcome = Committed | Queued;
