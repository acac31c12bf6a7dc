/** The limits of offers: a part of `LIMITS`, where their relations to the others are. */
export const OFFER_LIMITS = {
  /** An offer in the outbox, where it is one value of the store. */
  offer_bytes_max: 60_000,
  offer_attempt_count_max: 100,
  /** The silence of a client that received an offer, after which another client receives it. */
  offer_ack_wait_ms: 10_000,
  /** Offers of one agent type that all its clients together may hold unacknowledged. */
  offers_pending_count_max: 1_000,
  /**
   * Open requests for offers of one agent type, of all its clients together. The bus refuses further ones
   * with status 409.
   */
  offers_waiting_count_max: 4_096,
  /** The wait of one request for an offer. A client asks again when it is over. */
  offer_wait_ms_min: 100,
  offer_wait_ms_max: 30_000,
  offer_wait_ms_default: 15_000,
  /** The pause before an offer that a client left is delivered again. */
  offer_pause_ms_max: 3_600_000,
  /** The token of a delivery: two names of 64 characters and five numbers of 20 digits. */
  offer_delivery_chars_max: 300,
  /** The age at which the unused consumer of an agent type is removed. A new one begins with the oldest offer. */
  offer_consumer_kept_ms: 86_400_000,
} as const;
