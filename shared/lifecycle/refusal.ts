/** A decision against a command or an observation. */
import { FleetError } from "../protocol/errors.ts";

/** Why nothing changes. */
export type Why =
  | "unknown_task"
  | "unexpected_fence"
  | "not_owned"
  | "ended"
  | "no_checkpoint"
  | "earlier_owner"
  | "handoff_open"
  | "no_open_handoff"
  | "handoff_state"
  | "offer_expired"
  | "other_offer"
  | "agent_alive"
  /** Observations only. */
  | "superseded"
  | "blocked"
  | "handing_off"
  | "written"
  | "moved";

export interface Refusal {
  readonly refused: Why;
  /** The answer to the caller; null: an observation was refused, and no client waits. */
  readonly error: FleetError | null;
  /** For `agent_alive`: the time until which the agent counts as alive. */
  readonly untilMs?: number;
}

export function refuse(refused: Why, error: FleetError | null = null, untilMs?: number): Refusal {
  return { refused, error, ...(untilMs !== undefined && { untilMs }) };
}

export function conflict(refused: Why, message: string, details: Record<string, unknown>): Refusal {
  return refuse(refused, new FleetError("CONFLICT", message, { details }));
}
