/**
 * The bus as the rest of Fleet sees it: requests, services, events and durable streams. Bodies are bytes; what they mean is the
 * services' matter. Only shared/bus knows that NATS is behind it, so the client library can be replaced in one folder.
 */
import type { Stop } from "../runtime/process/service.ts";
import type { StreamSpec } from "./streams/streams.ts";

export interface Headers {
  get(name: string): string | undefined;
  keys(): string[];
}

export interface Message {
  readonly subject: string;
  readonly body: Uint8Array;
  /** Never undefined; empty when the message had none, so that a bare message from a stranger is harmless. */
  readonly headers: Headers;
  readonly replyTo: string | undefined;
}

export interface Outgoing {
  readonly body: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PublishAck {
  readonly stream: string;
  readonly seq: number;
  /** True when the stream had this message id already; that is a success. */
  readonly duplicate: boolean;
}

export interface DurableMessage extends Message {
  /** Position in the stream. */
  readonly seq: number;
  /** When the stream took it, in milliseconds since the epoch. */
  readonly storedAt: number;
  /** Delivered before. Not to be trusted when false: a server that crashed may have forgotten. */
  readonly redelivered: boolean;
  /** How often it was delivered, this time included; as little to be trusted. */
  readonly deliveries: number;
  /** Done, never deliver again. Called by the bus itself when the handler resolves. */
  ack(): void;
  /** Still at it: the acknowledgement wait starts anew. */
  working(): void;
  /** Not now and not here: whoever asks next gets it, before any later message, or after `pauseMs`. For those who stop asking or decline. */
  giveBack(pauseMs?: number): void;
  /** Hopeless: never deliver again. Put the message where people will see it first; the stream only notes the reason. */
  dead(reason: string): void;
}

export interface OrderedMessage extends Outgoing {
  readonly subject: string;
  readonly messageId: string;
  /** Messages of one key keep their order; different keys may overtake each other. */
  readonly orderKey: string;
}

export interface DurableOptions {
  readonly messageId: string;
  readonly timeoutMs: number;
  /** A full stream is an answer and no reason to wait for room. Default false. */
  readonly refuseFull?: boolean;
}

export interface RequestOptions {
  readonly timeoutMs: number;
  /** Ends the waiting with the signal's reason; the request may be carried out all the same. */
  readonly signal?: AbortSignal | undefined;
}

export interface ServeOptions {
  /** Each request reaches one member of the queue group. */
  readonly queue: string;
  readonly concurrencyMax: number;
  /**
   * While the oldest request under way has waited longer than this, in milliseconds, new ones are refused: their callers would
   * have given up and asked again before their turn came, and every repetition would add to the work.
   */
  readonly waitMsMax: number;
  /** The answer when there are too many requests under way, or they wait too long; given at once. */
  readonly overload: (message: Message) => Outgoing;
  /** The answer when the handler threw, or when its reply could not be sent. */
  readonly failed: (message: Message, error: unknown) => Outgoing;
}

export interface ConsumeOptions {
  readonly stream: string;
  readonly durable: string;
  readonly filters?: readonly string[];
  /** Handlers that run at once. With 1 the order is strict, also through crashes and redelivery; with more it is not. */
  readonly maxAckPending: number;
  /**
   * Handlers that run at once in this process, of a durable that processes with limits of their own share; `maxAckPending` is then
   * the same for all of them. What it does not handle it does not take, so a message never waits here while another process is free.
   */
  readonly concurrencyMax?: number;
  readonly ackWaitMs: number;
  /** Where a durable that is not there yet begins: with the stream's oldest message, or with the next one. Default "all". */
  readonly from?: "all" | "new";
  /** A durable that nobody asks for so long is forgotten, with its place. Default: never. */
  readonly forgottenAfterMs?: number;
  /** How long one request for messages waits at the server. Default 5,000; longer is cheaper while nothing comes. */
  readonly pullMs?: number;
}

/** A stream's numbers. */
export interface StreamState {
  readonly messages: number;
  readonly bytes: number;
  readonly bytesMax: number;
  /** The place of the newest message ever stored; 0 before the first. */
  readonly lastSeq: number;
  /** When the oldest message was stored, in milliseconds since the epoch; null when there is none. */
  readonly oldestAt: number | null;
}

/** A message at rest. */
export interface StoredHead {
  readonly seq: number;
  readonly subject: string;
  readonly headers: Headers;
}

export interface StoredBody extends StoredHead {
  readonly body: Uint8Array;
}

export interface Newest {
  readonly filter: string;
  readonly limit: number;
  readonly before?: number | undefined;
}

/** Looking into a stream, for people and repairs; nothing is consumed. Throws BusError. */
export interface StreamView {
  state(): Promise<StreamState>;
  /** Messages from `fromSeq` on without their bodies, oldest first, at most `limit`; not of a work queue. */
  list(fromSeq: number, limit: number): Promise<StoredHead[]>;
  get(seq: number): Promise<StoredBody | null>;
  /** How many messages are in the stream under a subject, which may have wildcards. */
  count(filter: string): Promise<number>;
  /** The newest messages under a subject, which may have wildcards, newest first, at most `limit`; `before`: of those with a smaller place. */
  newest(o: Newest): Promise<StoredBody[]>;
  /** False when it was gone already. */
  remove(seq: number): Promise<boolean>;
  /** Has settled messages that are in the stream again delivered again; how many consumers had passed some. */
  redeliverReturned(): Promise<number>;
}

export type BusStatus = "connected" | "disconnected" | "reconnecting" | "lame_duck";

export interface Bus {
  readonly identity: string;
  readonly serverVersion: string;
  /** Throws BusError. `timeout` is the one kind that leaves open whether the request was carried out. */
  request(subject: string, out: Outgoing, o: RequestOptions): Promise<Message>;
  /** Resolves when the server knows the subscription. Stop: takes no new requests and waits for those under way. */
  serve(subject: string, o: ServeOptions, handler: (m: Message) => Promise<Outgoing>): Promise<Stop>;
  /** Fire and forget: lost when nobody listens or the server is away. */
  publish(subject: string, out: Outgoing): void;
  subscribe(subject: string, handler: (m: Message) => void): Promise<Stop>;
  /**
   * Stored when it resolves. Retries with the same id inside `timeoutMs`; throws `timeout` when an attempt may have been stored, else
   * the last BusError.
   */
  publishDurable(subject: string, out: Outgoing, o: DurableOptions): Promise<PublishAck>;
  /** In order and all of them, or it throws: then send the whole batch again; the ids make duplicates harmless. */
  publishOrdered(messages: readonly OrderedMessage[], o: Omit<DurableOptions, "messageId">): Promise<void>;
  /** At least once. A handler that resolves acknowledges; one that throws gets the message again, later and later. */
  consume(o: ConsumeOptions, handler: (m: DurableMessage) => Promise<void>): Promise<Stop>;
  /** Every message of a stream in order, without acknowledgement, through reconnects. For watchers. */
  follow(
    o: { stream: string; filter: string; from: "new" | "all" },
    handler: (m: Message) => void,
  ): Promise<Stop>;
  stream(name: string): StreamView;
  /** Creates what is missing, updates what is safe to update. Throws StartupError where the difference is not safe. */
  reconcileStreams(specs: readonly StreamSpec[]): Promise<void>;
  /** Whether the server writes to disk before it acknowledges; "unknown" without a monitoring address. */
  proveDurability(): Promise<{ version: string; syncAlways: boolean | "unknown" }>;
  health(o: { timeoutMs: number }): Promise<{ ok: boolean; detail: string }>;
  /** `connected` comes when the server knows our subscriptions again, after a reconnect; not for the first connection. */
  onStatus(handler: (status: BusStatus) => void): void;
  /** Stops everything it serves, sends what is buffered, and closes; at the latest after `drainMs` (default 5,000). */
  close(o?: { drainMs?: number }): Promise<void>;
}

const KINDS = {
  no_responders: { retryable: true, text: "nobody serves this subject" },
  timeout: { retryable: true, text: "no answer in time" },
  too_large: { retryable: false, text: "the message is larger than the server accepts" },
  closed: { retryable: false, text: "the connection to the bus was closed" },
  permission: { retryable: false, text: "the bus does not permit this" },
  stream_full: { retryable: true, text: "the stream is full" },
  unavailable: { retryable: true, text: "the bus is not available" },
} as const;

export type BusErrorKind = keyof typeof KINDS;

export class BusError extends Error {
  readonly kind: BusErrorKind;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(kind: BusErrorKind, details: Readonly<Record<string, unknown>> = {}, cause?: unknown) {
    super(KINDS[kind].text, cause === undefined ? undefined : { cause });
    this.name = "BusError";
    this.kind = kind;
    this.details = details;
  }

  /** Whether the same call, made again, can succeed. */
  get retryable(): boolean {
    return KINDS[this.kind].retryable;
  }
}
