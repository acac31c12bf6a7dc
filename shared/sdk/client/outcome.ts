/**
 * What a command came to. Each of the three is a success: the command is safe, and is applied once. An error is thrown instead; then
 * nothing happened, except for TIMEOUT, where it is not known.
 */
import type { CommittedAnswer, HandoffAnswer } from "../../protocol/answers.ts";
import type { Camel } from "../case-convert.ts";

/** In the store, durable, with its audit entry and event. */
export interface Committed extends Omit<Camel<CommittedAnswer>, "status"> {
  readonly outcome: "committed";
}

interface Accepted {
  readonly commandId: string;
  readonly taskId: string;
  /** A create's checkpoint takes the command's id, so it is known by name already. */
  readonly checkpointId: string;
}

/** Store or writer is away; the command is durable in the queue and will be applied once, in order, or be a dead letter with the reason. */
export interface Queued extends Accepted {
  readonly outcome: "queued";
  /** Its place in the queue. */
  readonly position: number;
}

/**
 * The bus is away; the command is on the disk of this machine and goes into the queue, in order, when the bus is back: from this
 * process or from the next one of the same agent.
 */
export interface Spooled extends Accepted {
  readonly outcome: "spooled";
}

export type Outcome = Committed | Queued | Spooled;

/** A handoff as the command left it. */
export type HandoffChanged = Omit<Camel<HandoffAnswer>, "status">;

/** What asking for a handoff came to. It takes the command's id, so it is known by name already. */
export type HandoffOutcome =
  | (HandoffChanged & { readonly outcome: "committed" })
  | (Pick<HandoffChanged, "commandId" | "taskId" | "handoffId"> & { readonly outcome: "queued" | "spooled" });
