/**
 * The next step of a handoff: a pure function of its record, the time and the offer that was built for it.
 * Every instance arrives at the same step; the transaction that carries it out decides which of them took it.
 */
import type { Handoff, HandoffEnding } from "../../shared/protocol/handoff-record.ts";

/** An offer that was built for a handoff, or the reason why there is none. */
export type BuiltOffer<Offer> =
  | { readonly kind: "broken"; readonly failure: HandoffEnding }
  /** The checkpoint is sound, but cannot be offered to this agent type. */
  | { readonly kind: "unofferable"; readonly toAgentType: string; readonly failure: HandoffEnding }
  | { readonly kind: "offerable"; readonly offer: Offer };

export type HandoffStep<Offer> =
  /** The handoff has ended. */
  | { readonly do: "nothing" }
  /** An agent has until `untilMs` to act. */
  | { readonly do: "wait"; readonly untilMs: number }
  | { readonly do: "build_offer" }
  | { readonly do: "reject"; readonly failure: HandoffEnding }
  /** `toAgentType`: the type that was chosen while the offer was built. */
  | { readonly do: "escalate"; readonly failure: HandoffEnding; readonly toAgentType?: string }
  | { readonly do: "offer"; readonly offer: Offer }
  | { readonly do: "lapse" };

/** `built` null: no offer has been built yet. */
export function nextStep<Offer>(
  handoff: Pick<Handoff, "state" | "attempt" | "max_attempts" | "deadline">,
  nowMs: number,
  built: BuiltOffer<Offer> | null,
): HandoffStep<Offer> {
  switch (handoff.state) {
    case "requested":
    case "validated":
      return built === null ? { do: "build_offer" } : stepAfter(handoff.state, built);
    case "offered": {
      const untilMs = deadlineOf(handoff);
      if (nowMs < untilMs) return { do: "wait", untilMs };
      if (handoff.attempt >= (handoff.max_attempts ?? 1))
        return { do: "escalate", failure: unaccepted(handoff) };
      return built === null ? { do: "build_offer" } : stepAfter(handoff.state, built);
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

/** Only a request can be rejected. A checkpoint that became corrupt later needs an operator all the same. */
function stepAfter<Offer>(
  state: "requested" | "validated" | "offered",
  built: BuiltOffer<Offer>,
): HandoffStep<Offer> {
  switch (built.kind) {
    case "broken":
      return { do: state === "requested" ? "reject" : "escalate", failure: built.failure };
    case "unofferable":
      return { do: "escalate", failure: built.failure, toAgentType: built.toAgentType };
    case "offerable":
      return { do: "offer", offer: built.offer };
  }
}

/** A record without a deadline is overdue: it must not wait for ever. */
function deadlineOf({ deadline }: Pick<Handoff, "deadline">): number {
  const ms = deadline === null ? Number.NaN : Date.parse(deadline);
  return Number.isNaN(ms) ? Number.NEGATIVE_INFINITY : ms;
}

function unaccepted({ attempt }: Pick<Handoff, "attempt">): HandoffEnding {
  return {
    reason: "no_agent",
    details: `no agent accepted it in ${attempt} offer${attempt === 1 ? "" : "s"}`,
  };
}
