/**
 * Offers as they arrive, and how they are settled: by queries, so that a client needs no rights on the stream
 * of offers. Each request waits for one offer, which the stream delivers straight to this client.
 */
import type { Bus, Headers, Message } from "../bus/bus.ts";
import { decodeBody, encodeBody } from "../integrity/wire.ts";
import { type ErrorBody, FleetError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { OfferOutcome } from "../protocol/offer-queries.ts";
import {
  CONTENT_TYPES,
  type DeliveryAddress,
  HEADERS,
  parseDelivery,
  SUBJECTS,
} from "../protocol/subjects.ts";
import { type Clock, createWake } from "../runtime/clock.ts";
import type { Logger } from "../runtime/observability/log.ts";
import { backoffMs } from "../runtime/retry.ts";
import type { QuerySender } from "./request/query-sender.ts";

export interface SourceParts {
  readonly bus: Bus;
  readonly queries: QuerySender;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tenant: string;
  readonly agentId: string;
}

/** The time for a request's way to the stream and back, beside its wait there. */
const GRACE_MS = LIMITS.request_attempt_ms_default;
const PAUSE = { baseMs: 100, maxMs: 2_000 } as const;
const STATUS = { nothing: 404, waitOver: 408 } as const;
/** Later the bus delivers the offer again anyway. */
const SETTLE_MS = LIMITS.offer_ack_wait_ms;
/** A later extension would not help. */
const EXTEND_MS = LIMITS.offer_ack_wait_ms / 4;

/** The offers of one agent type. */
export class OfferSource {
  readonly #parts: SourceParts;
  readonly #subject: string;
  readonly #body: Uint8Array;
  readonly #agentType: string;
  readonly #settlements = new Set<Promise<void>>();
  readonly #connected = createWake();
  readonly #stopWatching: () => void;
  #connects = 0;

  constructor(parts: SourceParts, agentType: string) {
    this.#parts = parts;
    this.#agentType = agentType;
    this.#subject = SUBJECTS.query(parts.tenant, parts.agentId, "offer_next");
    const query = { agent_type: agentType, wait_ms: LIMITS.offer_wait_ms_default };
    this.#body = encodeBody(query, CONTENT_TYPES.json);
    this.#stopWatching = parts.bus.onStatus((status) => {
      if (status !== "connected") return;
      this.#connects += 1;
      this.#connected.notify();
    });
  }

  /** Calls `use` with one offer after the other, until the signal aborts. Never rejects. */
  async each(use: (delivery: OfferDelivery) => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#parts;
    for (let failures = 0; !signal.aborted; ) {
      const connects = this.#connects;
      try {
        const delivery = await this.#next(signal);
        failures = 0;
        if (delivery === undefined) continue;
        if (signal.aborted) delivery.settle("later");
        else await use(delivery);
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
        const fields = { error, agent_type: this.#agentType };
        if (failures === 1) log.warn(fields, "the next offer could not be requested");
        else log.debug(fields, "the next offer could not be requested again");
        await clock.wait(backoffMs(failures, PAUSE), this.#connected, signal);
        if (connects !== this.#connects) failures = 0;
      }
    }
  }

  /** Resolves when the offers are settled, after at most `ms`. */
  async close(ms: number): Promise<void> {
    this.#stopWatching();
    if (this.#settlements.size === 0) return;
    const waiting = new AbortController();
    const settled = Promise.all(this.#settlements).finally(() => waiting.abort());
    await Promise.race([settled, this.#parts.clock.sleep(ms, waiting.signal)]);
  }

  /** undefined: no offer came within the wait. */
  async #next(signal: AbortSignal): Promise<OfferDelivery | undefined> {
    const timeoutMs = LIMITS.offer_wait_ms_default + GRACE_MS;
    const out = { body: this.#body };
    const { message, status, reason } = await this.#parts.bus.requestDirect(this.#subject, out, {
      timeoutMs,
      signal,
    });
    if (status === STATUS.nothing || status === STATUS.waitOver) return undefined;
    if (status !== 0)
      throw new FleetError("UNAVAILABLE", "the stream of offers ended the wait", {
        details: { status, reason },
      });
    const address = parseDelivery(message.replyTo ?? "");
    if (address === undefined) throw refusalIn(message);
    return new OfferDelivery(this.#parts, message, address, this.#settlements);
  }
}

/** The error in a message that is not an offer: the answer of a service. */
function refusalIn({ body, headers }: Message): FleetError {
  const { error } = decodeBody(body, headers.get(HEADERS.contentType)) as { error?: ErrorBody };
  if (error !== undefined) return FleetError.fromBody(error);
  return new FleetError("UNAVAILABLE", "the answer is neither an offer nor an error");
}

/** One delivery of an offer. Its outcome is sent in the background. */
export class OfferDelivery {
  readonly #parts: SourceParts;
  readonly #message: Message;
  readonly #settlements: Set<Promise<void>>;
  readonly #address: DeliveryAddress;
  #isSettled = false;

  constructor(
    parts: SourceParts,
    message: Message,
    address: DeliveryAddress,
    settlements: Set<Promise<void>>,
  ) {
    this.#parts = parts;
    this.#message = message;
    this.#address = address;
    this.#settlements = settlements;
  }

  get subject(): string {
    return this.#message.subject;
  }

  get body(): Uint8Array {
    return this.#message.body;
  }

  get headers(): Headers {
    return this.#message.headers;
  }

  /** The position in the stream. */
  get seq(): number {
    return this.#address.seq;
  }

  /** The number of deliveries, including this one. */
  get deliveries(): number {
    return this.#address.deliveries;
  }

  /**
   * Sends the outcome, which is repeated until it is recorded or the bus delivers the offer again. The first
   * outcome counts. `after`: what must have ended before.
   */
  settle(outcome: Exclude<OfferOutcome, "working">, pauseMs = 0, after?: Promise<void>): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    const sent = this.#settle(outcome, pauseMs, after).finally(() => this.#settlements.delete(sent));
    this.#settlements.add(sent);
  }

  /** Restarts the wait after which the bus delivers the offer again. */
  async extend(): Promise<void> {
    const { queries } = this.#parts;
    await queries.send("offer_settle", {
      delivery: this.#token,
      outcome: "working",
      deadlineMs: EXTEND_MS,
    });
  }

  get #token(): string {
    return this.#message.replyTo as string;
  }

  async #settle(outcome: OfferOutcome, pauseMs: number, after?: Promise<void>): Promise<void> {
    const { queries, log } = this.#parts;
    try {
      await after;
      await queries.send("offer_settle", {
        delivery: this.#token,
        outcome,
        ...(outcome === "later" && { pauseMs: Math.min(pauseMs, LIMITS.offer_pause_ms_max) }),
        deadlineMs: SETTLE_MS,
      });
    } catch (error) {
      const { seq, subject } = this;
      log.warn({ error, subject, seq, outcome }, "offer could not be settled; the bus delivers it again");
    }
  }
}
