/**
 * Takes the offers for an agent type, which all its takers share. A handler decides about each offer and keeps it
 * meanwhile. The offer is settled only after the fleet has answered who owns the task: a crash before that brings the offer to
 * the next taker. Several may try; the transaction behind `acknowledge` gives the task to one.
 *
 * Other programs may publish on the bus, so an offer is not trusted. Its digest must match its content, or the handler never sees it.
 * The fleet recorded the digest of the offer that it made, so for any other offer `acknowledge` throws, and the agent must not start.
 */
import { uuidv7 } from "uuidv7";
import { offerDigest } from "../integrity/offer-digest.ts";
import { decodeBody } from "../integrity/wire.ts";
import { type ErrorCode, FleetError, invalid } from "../protocol/errors.ts";
import { isToken } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import { type Offer, type OfferData, offerSchema } from "../protocol/offer.ts";
import { CONTENT_TYPES } from "../protocol/subjects.ts";
import { validate } from "../protocol/validation.ts";
import { withSpan } from "../runtime/observability/tracing.ts";
import type { Stop } from "../runtime/process/service.ts";
import { withRetries } from "../runtime/retry.ts";
import { startTicker } from "../runtime/ticker.ts";
import type { AcknowledgeOptions } from "./client/options.ts";
import type { AcceptedHandoff } from "./client/task.ts";
import { type OfferDelivery, OfferSource, type SourceParts } from "./offer-source.ts";

export interface OfferOptions {
  /** Handlers that run at once; further offers are left to other takers. Default 1. */
  readonly concurrency?: number;
  /**
   * Called with an offer that is void: another agent has the task, the deadline has passed, the handoff was cancelled, or the fleet did
   * not make the offer.
   */
  readonly onVoid?: (offer: OfferData, why: FleetError) => void;
  /** Called with the reason when a message is refused because it is no offer of this type, or because its digest is not that of its content. */
  readonly onRefused?: (why: FleetError) => void;
}

export type OfferHandler = (offer: ReceivedOffer) => Promise<void>;

export interface OfferParts extends SourceParts {
  readonly acknowledge: (offer: OfferData, options: AcknowledgeOptions) => Promise<AcceptedHandoff>;
  /** Handoffs that this client has accepted; their offers may be redelivered. */
  readonly accepted: Set<string>;
}

/** The errors of a void offer. After any other error the offer is redelivered to the next taker. */
const VOID: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["CONFLICT", "NOT_FOUND", "EXPIRED", "INVALID"]);
/** The pause before a declined offer is redelivered, perhaps to the same taker. */
const DECLINED_MS = 1_000;
/** The pause after the failure of a handler. It doubles with each delivery. */
const FAILED_MS = { first: 250, last: 30_000 } as const;
/** How long a stop waits for offers that are being settled. */
const STOP_MS = 2_000;
const RETRY = { attempts: Number.POSITIVE_INFINITY, baseMs: 100, maxMs: 2_000 } as const;
const ACCEPTED_REMEMBERED = 1_000;

/** An offer that a handler decides about. */
export class ReceivedOffer {
  readonly #parts: OfferParts;
  readonly #options: OfferOptions;
  readonly #delivery: OfferDelivery;
  readonly #stopExtending: Stop;
  #isSettled = false;
  /** The CloudEvent as it was sent. */
  readonly event: Offer;
  /** Aborted when the taker stops: a handler that has not decided should decline. */
  readonly signal: AbortSignal;

  constructor(
    parts: OfferParts,
    options: OfferOptions,
    delivery: OfferDelivery,
    event: Offer,
    signal: AbortSignal,
  ) {
    this.#parts = parts;
    this.#options = options;
    this.#delivery = delivery;
    this.event = event;
    this.signal = signal;
    let runs = 0;
    this.#stopExtending = startTicker({
      name: "offer",
      everyMs: LIMITS.offer_ack_wait_ms / 4,
      // The first run is at once, when the wait has just begun.
      run: async () => void (runs++ > 0 && (await delivery.extend())),
      clock: parts.clock,
      log: parts.log,
    });
  }

  get data(): OfferData {
    return this.event.data;
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  /**
   * Makes this client's agent the owner of the task. Repeated until it is answered, since only the answer states who owns the task. For
   * a void offer it settles the offer and throws the refusal, which the handler should let pass.
   */
  async acknowledge(options: AcknowledgeOptions = {}): Promise<AcceptedHandoff> {
    const { acknowledge, accepted, clock } = this.#parts;
    const commandId = options.commandId ?? uuidv7();
    const retryable = (error: unknown) => error instanceof FleetError && error.retryable;
    try {
      const handoff = await withRetries({ ...RETRY, clock, retryable, signal: this.signal }, () =>
        acknowledge(this.data, { ...options, commandId }),
      );
      accepted.add(this.data.handoff_id);
      if (accepted.size > ACCEPTED_REMEMBERED) accepted.delete(accepted.values().next().value as string);
      this.settle();
      return handoff;
    } catch (error) {
      if (error instanceof FleetError && VOID.has(error.code)) {
        this.settle();
        this.#options.onVoid?.(this.data, error);
      }
      throw error;
    }
  }

  /** For a taker that acknowledged in another way: the offer is never redelivered. The handler may continue. */
  settle(): void {
    this.#settle("done");
  }

  /** Leaves the offer to the next taker, after a pause. A handler that returns without a decision declines. */
  decline(pauseMs = DECLINED_MS): void {
    this.#settle("later", pauseMs);
  }

  /** Stops extending the time after which the bus redelivers the offer. */
  stopExtending(): Promise<void> {
    return this.#stopExtending();
  }

  #settle(outcome: "done" | "later", pauseMs = 0): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    // An extension that arrived after the outcome would delay the next delivery.
    this.#delivery.settle(outcome, pauseMs, this.#stopExtending());
  }
}

/** Returns a function that stops taking offers and resolves when the running handlers are done. */
export function takeOffers(
  parts: OfferParts,
  agentType: string,
  handler: OfferHandler,
  options: OfferOptions,
): Stop {
  const { concurrency = 1 } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw invalid("concurrency", "at least 1", concurrency);
  if (!isToken(agentType)) throw invalid("agent_type", "1 to 64 characters of A-Z a-z 0-9 _ -", agentType);
  const stopping = new AbortController();
  const { signal } = stopping;
  const source = new OfferSource(parts, agentType);
  const use = (delivery: OfferDelivery) =>
    withSpan(
      "offer",
      { "messaging.message.id": delivery.seq },
      () => handle(parts, agentType, options, delivery, handler, signal),
      { parent: delivery.headers, kind: "consumer" },
    );
  const workers = Array.from({ length: concurrency }, () => source.each(use, signal));
  return async () => {
    stopping.abort();
    await Promise.all(workers);
    await source.close(STOP_MS);
  };
}

/** Never rejects: an offer whose handler failed is delivered again. */
async function handle(
  parts: OfferParts,
  agentType: string,
  options: OfferOptions,
  delivery: OfferDelivery,
  handler: OfferHandler,
  signal: AbortSignal,
): Promise<void> {
  const { accepted, log } = parts;
  const { subject, seq } = delivery;
  const event = readOffer(parts, agentType, delivery);
  if (event instanceof FleetError) {
    log.error({ error: event, subject, seq }, "message is not an offer");
    delivery.settle("refused");
    return options.onRefused?.(event);
  }
  const { handoff_id, task_id, attempt } = event.data;
  // Accepted already; its settlement was lost.
  if (accepted.has(handoff_id)) return delivery.settle("done");
  const offer = new ReceivedOffer(parts, options, delivery, event, signal);
  try {
    await handler(offer);
    offer.decline();
  } catch (error) {
    const facts = { task_id, handoff_id, attempt };
    if (!offer.isSettled) {
      log.error({ ...facts, error, seq }, "the handler of an offer failed");
      offer.decline(Math.min(FAILED_MS.first * 2 ** (delivery.deliveries - 1), FAILED_MS.last));
    }
    // The refusal of a void offer was reported. Any other error after the decision concerns the handler only.
    else if (error instanceof FleetError && VOID.has(error.code))
      log.info({ ...facts, code: error.code }, "offer is void");
    else log.error({ ...facts, error }, "the handler of a settled offer failed");
  } finally {
    await offer.stopExtending();
  }
}

/** The error for a message that is not an offer as the coordinators make it. No taker can use it. */
function readOffer({ tenant }: OfferParts, agentType: string, { body }: OfferDelivery): Offer | FleetError {
  try {
    const message = decodeBody(body, CONTENT_TYPES.json);
    const offer = validate(offerSchema, message);
    const { data } = offer;
    // Of the data as it was received: the schema adds default values.
    const digest = offerDigest((message as { readonly data: object }).data);
    if (data.digest !== digest) return invalid("data.digest", `${digest}, as the data`, data.digest);
    if (data.tenant !== tenant) return invalid("data.tenant", tenant, data.tenant);
    if (data.agent_type !== agentType) return invalid("data.agent_type", agentType, data.agent_type);
    return offer;
  } catch (error) {
    if (error instanceof FleetError) return error;
    throw error;
  }
}
