/**
 * The bus as the rest of Fleet sees it: requests, services, events and durable streams. Bodies are bytes that
 * the services interpret. Only shared/bus knows of NATS, so the client library can be replaced in one folder.
 */
import type { BusDiagnosis } from "../protocol/diagnosis.ts";
import type { StreamFinding } from "../protocol/fleet-health.ts";
import type { Stop } from "../runtime/process/service.ts";
import type { StreamSpec } from "./streams/streams.ts";

/** Whether the servers of the bus sync to disk before they acknowledge, as their monitoring addresses report. */
export interface Durability {
  /** Of the connected server. */
  readonly version: string;
  /** "unknown": none of the addresses is that of the connected server, or it does not answer. */
  readonly syncAlways: boolean | "unknown";
  /** The names of the servers that do not, connected or not. */
  readonly unsafe: readonly string[];
  /** The addresses at which no server of this bus answers. */
  readonly silent: readonly string[];
}

export interface Headers {
  get(name: string): string | undefined;
  keys(): string[];
}

export interface Message {
  readonly subject: string;
  readonly body: Uint8Array;
  /** Empty if the message had none, so that a bare message from a foreign client is harmless. */
  readonly headers: Headers;
  readonly replyTo: string | undefined;
}

/** A message with an address for its answer. */
export interface AddressedMessage extends Message {
  readonly replyTo: string;
}

export interface Outgoing {
  readonly body: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PublishAck {
  readonly stream: string;
  readonly seq: number;
  /** True if the stream had this message id already. That is a success. */
  readonly duplicate: boolean;
}

export interface DurableMessage extends Message {
  /** The position in the stream. */
  readonly seq: number;
  /** The time at which the stream stored it, in milliseconds since the epoch. */
  readonly storedAt: number;
  /** True if it was delivered before. False is not reliable: a server forgets deliveries in a crash. */
  readonly redelivered: boolean;
  /** The number of deliveries, including this one. As unreliable as `redelivered`. */
  readonly deliveries: number;
  /** Settles the message for good. The bus itself calls it when the handler resolves. */
  ack(): void;
  /** Restarts the acknowledgement wait, because the handler needs more time. */
  working(): void;
  /**
   * Returns the message to the stream. The next consumer to ask gets it before any later message, or after
   * `pauseMs`. For a consumer that stops or declines.
   */
  giveBack(pauseMs?: number): void;
  /** Never deliver it again. The stream only notes the reason, so store the message for operators first. */
  dead(reason: string): void;
}

export interface OrderedMessage extends Outgoing {
  readonly subject: string;
  readonly messageId: string;
  /** Messages of one key keep their order. Messages of different keys may overtake each other. */
  readonly orderKey: string;
}

export interface DurableOptions {
  readonly messageId: string;
  readonly timeoutMs: number;
  /** Fail at once if the stream is full, instead of waiting for room. Default false. */
  readonly refuseFull?: boolean;
  /**
   * The id is one that callers make as well, so that a copy from either is the same message. Default false: a
   * service publishes under an id that only services can make.
   */
  readonly isSharedId?: boolean;
  /**
   * The stream removes its messages in normal use, such as a work queue. A message that it reports as a copy and no longer has was then
   * stored. Default false: it is stored again.
   */
  readonly expectsRemoval?: boolean;
  /** Whether a stored body is a copy of this message. Default: the same bytes. */
  readonly isCopy?: (stored: Uint8Array) => boolean;
}

export interface RequestOptions {
  readonly timeoutMs: number;
  /** Ends the wait with the signal's reason. The request may still be carried out. */
  readonly signal?: AbortSignal | undefined;
}

/** An answer that a stream may have delivered. */
export interface DirectAnswer {
  readonly message: Message;
  /** The status of the server, for example 408: the wait is over. 0: this is a message. */
  readonly status: number;
  /** The text of the status. */
  readonly reason: string;
}

/** The outcome of a delivery: settled, delivered again after a pause, more time, never delivered again. */
export type Settlement =
  | { readonly kind: "ack" | "working" | "dead" }
  | { readonly kind: "giveBack"; readonly pauseMs: number };

export interface ServeOptions {
  /** Each request reaches one member of the queue group. */
  readonly queue: string;
  readonly concurrencyMax: number;
  /**
   * While the oldest open request has waited longer than this, in milliseconds, new ones are refused. Their
   * callers would time out and retry before their turn, and every retry would add to the load.
   */
  readonly waitMsMax: number;
  /**
   * Whether the reply address is the caller's own inbox. A request with another one is dropped: the answer
   * would speak to a third party with the rights of this service.
   */
  readonly isOwnReply: (message: AddressedMessage) => boolean;
  /**
   * Reports a dropped request. One without a reply address is dropped too: JetStream confirms a message at the reply address that its sender
   * has chosen, without the sender's permissions and without a reply address. So nothing proves the caller that its subject names.
   */
  readonly dropped: (message: Message) => void;
  /** The immediate answer if too many requests are open, or they wait too long. */
  readonly overload: (message: Message) => Outgoing;
  /** The answer if the handler threw, or if its reply could not be sent. */
  readonly failed: (message: Message, error: unknown) => Outgoing;
}

export interface ConsumeOptions {
  readonly stream: string;
  readonly durable: string;
  readonly filters?: readonly string[];
  /** The number of concurrent handlers. Only 1 keeps a strict order, also through crashes and redelivery. */
  readonly maxAckPending: number;
  readonly ackWaitMs: number;
  /** Where a new durable begins: at the stream's oldest message, or at the next one. Default "all". */
  readonly from?: "all" | "new";
  /** A durable that no client uses for this long is removed with its position. Default: never. */
  readonly forgottenAfterMs?: number;
  /** The number of pull requests that may wait at the server. Only for a new durable. Default 512. */
  readonly waitingMax?: number;
  /** How long one pull request waits at the server. Default 5,000. Longer is cheaper on an idle stream. */
  readonly pullMs?: number;
}

/** The size of a stream. */
export interface StreamState {
  readonly messages: number;
  readonly bytes: number;
  readonly bytesMax: number;
  /** The position of the newest message ever stored. 0 before the first. */
  readonly lastSeq: number;
  /** The time of the oldest message, in milliseconds since the epoch. null: there is none. */
  readonly oldestAt: number | null;
}

/** A stored message without its body. */
export interface StoredHead {
  readonly seq: number;
  readonly subject: string;
  readonly headers: Headers;
}

export interface StoredBody extends StoredHead {
  readonly body: Uint8Array;
}

export interface NewestQuery {
  /** A subject, which may have wildcards. */
  readonly filter: string;
  readonly limit: number;
  /** Only messages at earlier positions. */
  readonly before?: number | undefined;
}

/** `some`: it was not to continue. `denied`: the stream forbids it, which the server never takes back. */
export type ErasedMessages = "all" | "some" | "denied";

/** Reads a stream without consuming from it, for operators and repairs. Throws BusError. */
export interface StreamView {
  state(): Promise<StreamState>;
  /** At most `limit` messages from `fromSeq` on without bodies, oldest first. Not for a work queue. */
  list(fromSeq: number, limit: number): Promise<StoredHead[]>;
  /** Like {@link list}, with bodies; only of subjects in the filter. */
  read(fromSeq: number, limit: number, filter?: string): Promise<StoredBody[]>;
  get(seq: number): Promise<StoredBody | null>;
  /** The number of messages under a subject, which may have wildcards. */
  count(filter: string): Promise<number>;
  /** The newest messages, newest first. */
  newest(query: NewestQuery): Promise<StoredBody[]>;
  /** False: it was already removed. */
  remove(seq: number): Promise<boolean>;
  /**
   * Removes all messages that are under a subject now, which may have wildcards, and overwrites their bytes. May be repeated. Asks before each message
   * whether it may continue.
   */
  erase(filter: string, mayContinue: () => Promise<boolean>): Promise<ErasedMessages>;
  /**
   * Removes each consumer that has passed messages which are in the stream again, so that they are delivered
   * again. Returns the number of removed consumers.
   */
  removeStaleConsumers(): Promise<number>;
}

/** Named bytes, each of which is one message. Throws BusError. */
export interface ObjectBucket {
  readonly name: string;
  /** Durable when it resolves. False: an object of this name has other bytes. Repairs an object that has lost its bytes. */
  put(name: string, bytes: Uint8Array): Promise<boolean>;
  /** The verified bytes. null: there is no such object, or its bytes are lost or damaged. */
  get(name: string): Promise<Uint8Array | null>;
  /** By its record alone. null: there is no such object. */
  size(name: string): Promise<number | null>;
  /** May be repeated. */
  remove(name: string): Promise<void>;
  names(): Promise<string[]>;
  /** Removes the fragments from before this time, and returns their number. */
  removeFragments(beforeMs: number): Promise<number>;
}

/** The facts of a connection and of the server at its other end. */
export interface BusLink {
  readonly serverName: string;
  readonly serverVersion: string;
  /** The address at which the server listens, such as `0.0.0.0`. */
  readonly listenHost: string;
  readonly encrypted: boolean;
  /** Whether the connection stays on this machine. */
  readonly loopback: boolean;
  /** Whether the server refuses connections without TLS. */
  readonly requiresTls: boolean;
}

/** `other_fleet`: another fleet than the expected one answers; nothing is sent to it. */
export type BusStatus = "connected" | "disconnected" | "reconnecting" | "lame_duck" | "other_fleet";

export interface Bus {
  readonly serverVersion: string;
  readonly link: BusLink;
  /** The identity of the fleet; undefined: its server announces none. */
  readonly fleet: string | undefined;
  /** Throws BusError. Only after `timeout` is it unknown whether the request was carried out. */
  request(subject: string, out: Outgoing, o: RequestOptions): Promise<Message>;
  /**
   * A request that a stream may answer: a stored message keeps its subject, so the request has an inbox of its
   * own. A message that arrives while the caller aborts or the time runs out is still the answer.
   */
  requestDirect(subject: string, out: Outgoing, o: RequestOptions): Promise<DirectAnswer>;
  /**
   * A request with several answers. Calls `onAnswer` with each until it returns true or the time is over. Throws BusError if no party is
   * subscribed, or if the connection is lost.
   */
  gather(
    subject: string,
    out: Outgoing,
    o: RequestOptions,
    onAnswer: (answer: Message) => boolean,
  ): Promise<void>;
  /** Resolves when the server knows the subscription. Stop ends it and awaits the open requests. */
  serve(
    subject: string,
    o: ServeOptions,
    /** undefined: another party answers the request. */
    handler: (m: AddressedMessage) => Promise<Outgoing | undefined>,
  ): Promise<Stop>;
  /** Fire and forget: the message is lost without a subscriber or without a server. */
  publish(subject: string, out: Outgoing): void;
  subscribe(subject: string, handler: (m: Message) => void): Promise<Stop>;
  /**
   * Resolves when the message is stored. Retries with the same id within `timeoutMs`. Throws `timeout` if an
   * attempt may have been stored, else the last BusError.
   */
  publishDurable(subject: string, out: Outgoing, o: DurableOptions): Promise<PublishAck>;
  /** Stores all in order, or throws. Then send the whole batch again: the ids make duplicates harmless. */
  publishOrdered(messages: readonly OrderedMessage[], o: Omit<DurableOptions, "messageId">): Promise<void>;
  /** At least once. A handler that throws gets the message again, with a growing pause. */
  consume(o: ConsumeOptions, handler: (m: DurableMessage) => Promise<void>): Promise<Stop>;
  /**
   * Has the next message of a durable delivered to an inbox, or status 408 when the wait is over. Creates the
   * durable if it is missing. Resolves when the pull request is sent.
   */
  deliverNext(o: ConsumeOptions, to: { inbox: string; waitMs: number }): Promise<void>;
  /** Settles a message that was delivered to an inbox, by its reply subject. Resolves when it is recorded. */
  settleDelivery(delivery: string, settlement: Settlement, o: RequestOptions): Promise<void>;
  /** Delivers every message of a stream in order, without acknowledgement and across reconnects. */
  follow(
    o: { stream: string; filter: string; from: "new" | "all" },
    handler: (m: Message) => void,
  ): Promise<Stop>;
  stream(name: string): StreamView;
  /** Its stream is one of {@link reconcileStreams}. */
  bucket(name: string): ObjectBucket;
  /** Creates missing streams and makes safe changes. Throws StartupError for an unsafe difference. */
  reconcileStreams(specs: readonly StreamSpec[]): Promise<void>;
  /**
   * Compares the reconciled streams and the consumers of this connection with the server. With `repair`,
   * restores what can be restored without losing a message. Throws BusError.
   */
  inspectStreams(o: { repair: boolean }): Promise<StreamFinding[]>;
  /** The rights that the server has refused to this connection, such as `publish fleet.alert`. */
  refusedRights(): readonly string[];
  /** The bus as this connection finds it. `now`: the clock that the server's is compared with. Throws BusError. */
  diagnose(now: () => number): Promise<BusDiagnosis>;
  /** Throws StartupError for a server that is too old. */
  proveDurability(): Promise<Durability>;
  health(o: { timeoutMs: number }): Promise<{ ok: boolean; detail: string }>;
  /**
   * `connected` follows a reconnect, once the server knows our subscriptions again. Returns a function that
   * removes the handler.
   */
  onStatus(handler: (status: BusStatus) => void): () => void;
  /** Stops all services, sends buffered messages and closes, within `drainMs` (default 5,000). */
  close(o?: { drainMs?: number }): Promise<void>;
}

const KINDS = {
  no_responders: { retryable: true, text: "no service is subscribed to this subject" },
  timeout: { retryable: true, text: "no answer in time" },
  too_large: { retryable: false, text: "the message is larger than the server accepts" },
  other_fleet: { retryable: false, text: "another fleet answers at the address" },
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

  /** Whether a retry of the same call can succeed. */
  get retryable(): boolean {
    return KINDS[this.kind].retryable;
  }
}
