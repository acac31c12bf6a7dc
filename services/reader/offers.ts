/**
 * Offers by query, so that clients need no rights on the stream. `offer_next` has the stream deliver the next
 * offer straight to the caller's inbox: this service keeps no state, and a caller that is gone gets nothing.
 * `offer_settle` records the outcome of a delivery of the caller's tenant. It publishes to no other subject.
 */
import type { Settlement } from "../../shared/bus/bus.ts";
import type { ForwardedRequest } from "../../shared/bus/request/endpoint.ts";
import { invalid } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { OfferOutcome, SettledOffer } from "../../shared/protocol/offer-queries.ts";
import type { QueryParams } from "../../shared/protocol/queries.ts";
import { offerConsumer, parseDelivery, STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { ReaderContext } from "./context.ts";

/** A stream without answers must not occupy the reader until it refuses other queries. */
const SETTLE_MS = 1_000;

export interface OfferQueries {
  /** `replyTo`: an inbox of the caller. */
  next(tenant: string, query: QueryParams<"offer_next">, replyTo: string): Promise<ForwardedRequest>;
  settle(tenant: string, query: QueryParams<"offer_settle">): Promise<SettledOffer>;
}

export function createOfferQueries({ bus }: Pick<ReaderContext, "bus">): OfferQueries {
  return {
    async next(tenant, { agent_type, wait_ms }, replyTo) {
      await bus.deliverNext(
        {
          stream: STREAMS.offers,
          durable: offerConsumer(tenant, agent_type),
          filters: [SUBJECTS.offersOf(tenant, agent_type)],
          maxAckPending: LIMITS.offers_pending_count_max,
          ackWaitMs: LIMITS.offer_ack_wait_ms,
          waitingMax: LIMITS.offers_waiting_count_max,
          forgottenAfterMs: LIMITS.offer_consumer_kept_ms,
        },
        { inbox: replyTo, waitMs: wait_ms },
      );
      return { forwarded: true };
    },

    async settle(tenant, { delivery, outcome, pause_ms = 0 }) {
      if (parseDelivery(delivery)?.tenant !== tenant)
        throw invalid(
          "delivery",
          "the reply subject of an offer that was delivered to this tenant",
          delivery,
        );
      await bus.settleDelivery(delivery, settlementOf(outcome, pause_ms), { timeoutMs: SETTLE_MS });
      return { outcome };
    },
  };
}

function settlementOf(outcome: OfferOutcome, pauseMs: number): Settlement {
  switch (outcome) {
    case "done":
      return { kind: "ack" };
    case "working":
      return { kind: "working" };
    case "refused":
      return { kind: "dead" };
    case "later":
      return { kind: "giveBack", pauseMs };
  }
}
