/**
 * What is to be done about a handoff now: a pure function of its record, the time and what an examination found. Every instance comes
 * to the same step; the transaction that carries it out decides which of them did.
 */
import type { Handoff, HandoffEnding } from "../../shared/protocol/handoff-record.ts";

/** What was found by looking at the checkpoint, and what can be made of it. */
export type Examination<Offer> =
  | { readonly kind: "broken"; readonly failure: HandoffEnding }
  /** Sound, but it cannot be offered to who should get it. */
  | { readonly kind: "unofferable"; readonly toAgentType: string; readonly failure: HandoffEnding }
  | { readonly kind: "offerable"; readonly offer: Offer };

export type Step<Offer> =
  /** It has ended. */
  | { readonly do: "nothing" }
  /** Somebody else's turn, until then. */
  | { readonly do: "wait"; readonly untilMs: number }
  | { readonly do: "examine" }
  | { readonly do: "reject"; readonly failure: HandoffEnding }
  /** `toAgentType`: who should have got it, when that was found out just now. */
  | { readonly do: "escalate"; readonly failure: HandoffEnding; readonly toAgentType?: string }
  | { readonly do: "offer"; readonly offer: Offer }
  | { readonly do: "lapse" };

export function nextStep<Offer>(
  handoff: Pick<Handoff, "state" | "attempt" | "max_attempts" | "deadline">,
  nowMs: number,
  examined: Examination<Offer> | null,
): Step<Offer> {
  switch (handoff.state) {
    case "requested":
    case "validated":
      return examined === null ? { do: "examine" } : outcome(handoff.state, examined);
    case "offered": {
      const untilMs = deadlineOf(handoff);
      if (nowMs < untilMs) return { do: "wait", untilMs };
      if (handoff.attempt >= (handoff.max_attempts ?? 1))
        return { do: "escalate", failure: untaken(handoff) };
      return examined === null ? { do: "examine" } : outcome(handoff.state, examined);
    }
    case "accepted": {
      const untilMs = deadlineOf(handoff);
      return nowMs < untilMs ? { do: "wait", untilMs } : { do: "lapse" };
    }
    case "confirmed":
    case "rejected":
    case "escalated":
    case "cancelled":
    case "lapsed":
      return { do: "nothing" };
  }
}

/** Only a request can be rejected; what broke later is a matter for a person just the same. */
function outcome<Offer>(
  state: "requested" | "validated" | "offered",
  examined: Examination<Offer>,
): Step<Offer> {
  switch (examined.kind) {
    case "broken":
      return { do: state === "requested" ? "reject" : "escalate", failure: examined.failure };
    case "unofferable":
      return { do: "escalate", failure: examined.failure, toAgentType: examined.toAgentType };
    case "offerable":
      return { do: "offer", offer: examined.offer };
  }
}

/** A record without one is overdue: it must not wait for ever. */
function deadlineOf({ deadline }: Pick<Handoff, "deadline">): number {
  const ms = deadline === null ? Number.NaN : Date.parse(deadline);
  return Number.isNaN(ms) ? Number.NEGATIVE_INFINITY : ms;
}

function untaken({ attempt }: Pick<Handoff, "attempt">): HandoffEnding {
  return { reason: "no_agent", details: `nobody took it in ${attempt} offer${attempt === 1 ? "" : "s"}` };
}
