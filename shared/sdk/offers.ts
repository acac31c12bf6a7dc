/**
 * Taking offers: one durable consumer for each agent type, which all takers share. A handler decides; while it thinks the offer stays
 * with it. The message is acknowledged when the fleet has answered who has the task, and not before: until then a crash brings the
 * offer to the next taker. Several may try; the transaction behind `acknowledge` lets one have the task.
 */
import { uuidv7 } from "uuidv7";
import type { Bus, DurableMessage } from "../bus/bus.ts";
import { decodeBody } from "../integrity/wire.ts";
import { type ErrorCode, FleetError, invalid } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { type Offer, type OfferData, offerSchema } from "../protocol/offer.ts";
import { CONTENT_TYPES, offerConsumer, STREAMS, SUBJECTS } from "../protocol/subjects.ts";
import { validate } from "../protocol/validation.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/observability/log.ts";
import { withSpan } from "../runtime/observability/tracing.ts";
import type { Stop } from "../runtime/process/service.ts";
import { retry } from "../runtime/retry.ts";
import { startTicker } from "../runtime/ticker.ts";
import type { AcknowledgeOptions } from "./client/options.ts";
import type { Acknowledged } from "./client/task.ts";

export interface OfferOptions {
  /** Handlers that run at once; more offers are left to other takers. Default 1. */
  readonly concurrency?: number;
  /** Told of an offer that is void: somebody else has the task, it is too late, the handoff was taken back. Default: nothing. */
  readonly onVoid?: (offer: OfferData, why: FleetError) => void;
}

export type OfferHandler = (offer: OfferInHand) => Promise<void>;

export interface OfferParts {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tenant: string;
  readonly acknowledge: (offer: OfferData, options: AcknowledgeOptions) => Promise<Acknowledged>;
  /** Handoffs that this client has accepted: their offers may come once more. */
  readonly accepted: Set<string>;
}

/** What makes an offer void; every other error is the taker's own trouble, and the offer goes to the next one. */
const VOID: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["CONFLICT", "NOT_FOUND", "EXPIRED"]);
/** Before a declined offer comes to somebody, perhaps the same taker, again. */
const DECLINED_MS = 1_000;
const RETRY = { attempts: Number.POSITIVE_INFINITY, baseMs: 100, maxMs: 2_000 } as const;
const ACCEPTED_REMEMBERED = 1_000;

/** An offer that a handler has to decide about. */
export class OfferInHand {
  readonly #parts: OfferParts;
  readonly #options: OfferOptions;
  readonly #message: DurableMessage;
  readonly #quiet: Stop;
  #isSettled = false;
  /** The CloudEvent as it was sent. */
  readonly event: Offer;
  /** Aborted when the taker stops: who still thinks should decline. */
  readonly signal: AbortSignal;

  constructor(
    parts: OfferParts,
    options: OfferOptions,
    message: DurableMessage,
    event: Offer,
    signal: AbortSignal,
  ) {
    this.#parts = parts;
    this.#options = options;
    this.#message = message;
    this.event = event;
    this.signal = signal;
    this.#quiet = startTicker({
      name: "offer",
      everyMs: LIMITS.offer_ack_wait_ms / 4,
      run: async () => message.working(),
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
   * Makes this client's agent the owner of the task. Asks until there is an answer, since only that says who has the task. Throws the
   * refusal when the offer is void, which settles it: just let it pass.
   */
  async acknowledge(options: AcknowledgeOptions = {}): Promise<Acknowledged> {
    const { acknowledge, accepted, clock } = this.#parts;
    const commandId = options.commandId ?? uuidv7();
    const isOpen = (error: unknown) => error instanceof FleetError && error.retryable;
    try {
      const taken = await retry({ ...RETRY, clock, retryable: isOpen, signal: this.signal }, () =>
        acknowledge(this.data, { ...options, commandId }),
      );
      accepted.add(this.data.handoff_id);
      if (accepted.size > ACCEPTED_REMEMBERED) accepted.delete(accepted.values().next().value as string);
      this.settle();
      return taken;
    } catch (error) {
      if (error instanceof FleetError && VOID.has(error.code)) {
        this.settle();
        this.#options.onVoid?.(this.data, error);
      }
      throw error;
    }
  }

  /** For who acknowledged in another way: the offer is dealt with and never comes again. The handler may go on. */
  settle(): void {
    this.#settled(() => this.#message.ack());
  }

  /** Not by us: after a moment it comes to whoever asks next. A handler that returns without a word declines. */
  decline(pauseMs = DECLINED_MS): void {
    this.#settled(() => this.#message.giveBack(pauseMs));
  }

  /** Says no more that somebody is at it. */
  quiet(): Promise<void> {
    return this.#quiet();
  }

  #settled(tell: () => void): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    void this.#quiet();
    tell();
  }
}

/** Stop: takes no new offers, and resolves when the handlers at work are done. */
export async function takeOffers(
  parts: OfferParts,
  agentType: string,
  handler: OfferHandler,
  options: OfferOptions,
): Promise<Stop> {
  const { bus, tenant } = parts;
  const { concurrency = 1 } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw invalid("concurrency", "at least 1", concurrency);
  const stopping = new AbortController();
  const stop = await bus.consume(
    {
      stream: STREAMS.offers,
      durable: offerConsumer(tenant, agentType),
      filters: [SUBJECTS.offersOf(tenant, agentType)],
      maxAckPending: LIMITS.offers_pending_count_max,
      ackWaitMs: LIMITS.offer_ack_wait_ms,
      concurrencyMax: concurrency,
    },
    (message) =>
      withSpan(
        "offer",
        { "messaging.message.id": message.seq },
        () => handle(parts, options, message, handler, stopping.signal),
        {
          parent: message.headers,
          kind: "consumer",
        },
      ),
  );
  return async () => {
    stopping.abort();
    await stop();
  };
}

async function handle(
  parts: OfferParts,
  options: OfferOptions,
  message: DurableMessage,
  handler: OfferHandler,
  signal: AbortSignal,
): Promise<void> {
  const { accepted, log } = parts;
  const event = read(message, log);
  if (event === null) return message.dead("not an offer");
  const { handoff_id, task_id, attempt } = event.data;
  // Ours already; its acknowledgement was lost.
  if (accepted.has(handoff_id)) return;
  const offer = new OfferInHand(parts, options, message, event, signal);
  try {
    await handler(offer);
    offer.decline();
  } catch (error) {
    // A refusal that settled the offer was told; what else was thrown after that is the handler's own matter.
    if (!offer.isSettled) throw error;
    const facts = { task_id, handoff_id, attempt };
    if (error instanceof FleetError && VOID.has(error.code))
      log.info({ ...facts, code: error.code }, "offer is void");
    else log.error({ ...facts, error }, "the handler of a settled offer failed");
  } finally {
    await offer.quiet();
  }
}

/** null for what is no offer at all: the coordinators never sent that, and nobody can do anything with it. */
function read(message: DurableMessage, log: Logger): Offer | null {
  try {
    return validate(offerSchema, decodeBody(message.body, CONTENT_TYPES.json));
  } catch (error) {
    log.error({ error, subject: message.subject, seq: message.seq }, "message is not an offer");
    return null;
  }
}
