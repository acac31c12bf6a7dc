/** The queries by which a client takes offers: one asks for the next offer, one settles a delivered offer. */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";

const wait = `a number from ${LIMITS.offer_wait_ms_min} to ${LIMITS.offer_wait_ms_max}`;
const pause = `a number from 0 to ${LIMITS.offer_pause_ms_max}`;

/** The stream of offers answers it, with the offer itself or with a status. */
export const offerNextQuerySchema = z.looseObject({
  agent_type: tokenSchema,
  wait_ms: z
    .int()
    .min(LIMITS.offer_wait_ms_min, wait)
    .max(LIMITS.offer_wait_ms_max, wait)
    .default(LIMITS.offer_wait_ms_default),
});

/**
 * `done`: never delivered again. `later`: delivered again, after a pause. `working`: the wait for the outcome
 * starts again. `refused`: not an offer, never delivered again.
 */
export const OFFER_OUTCOMES = ["done", "later", "working", "refused"] as const;
export type OfferOutcome = (typeof OFFER_OUTCOMES)[number];

export const offerSettleQuerySchema = z
  .looseObject({
    /** The reply subject of the message that delivered the offer. */
    delivery: z
      .string()
      .max(LIMITS.offer_delivery_chars_max, `at most ${LIMITS.offer_delivery_chars_max} characters`),
    outcome: z.enum(OFFER_OUTCOMES, { error: `one of ${OFFER_OUTCOMES.join(", ")}` }),
    pause_ms: z.int().min(0, pause).max(LIMITS.offer_pause_ms_max, pause).optional(),
  })
  .refine(({ outcome, pause_ms }) => pause_ms === undefined || outcome === "later", {
    path: ["pause_ms"],
    error: "only with the outcome later",
  });

/** The stream has recorded the outcome. */
export interface SettledOffer {
  readonly outcome: OfferOutcome;
}

export const settledOfferSchema = z.looseObject({ outcome: z.enum(OFFER_OUTCOMES) });
