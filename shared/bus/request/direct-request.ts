/**
 * Requests that a stream may answer, and requests with several answers. A stored message keeps its subject, which does not name the
 * request, so each request has a subscription of its own. There are few of them and they wait long.
 *
 * A request that ends unsubscribes first, and a message that the server had sent until then is its answer. A
 * lost connection ends every open request at once with `timeout`.
 */
import { createInbox, type Msg, type NatsConnection, type Subscription } from "@nats-io/transport-node";
import {
  BusError,
  type BusErrorKind,
  type DirectAnswer,
  type Message,
  type Outgoing,
  type RequestOptions,
} from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { inboxPrefixFor } from "./inbox.ts";
import { ReceivedMessage, statusCode, wireHeaders } from "./message.ts";

interface OpenRequest {
  readonly subject: string;
  readonly fail: (kind: BusErrorKind, details: Readonly<Record<string, unknown>>) => void;
}

interface Exchange<T> {
  /** The number of answers after which the server ends the subscription. Absent: there is no number. */
  readonly max?: number;
  /** undefined: more answers are awaited. */
  readonly arrived: (raw: Msg) => { readonly result: T } | undefined;
  /** The result when the time is over. undefined: the request has failed. */
  readonly overdue: () => { readonly result: T } | undefined;
}

export class DirectRequests {
  readonly #connection: NatsConnection;
  /** The prefix of the inboxes for requests whose subject names no caller. */
  readonly #inboxPrefix: string;
  readonly #open = new Set<OpenRequest>();
  /** The reason why nothing can be sent now. */
  #obstacle: "unavailable" | "closed" | undefined;

  constructor(connection: NatsConnection, inboxPrefix: string) {
    this.#connection = connection;
    this.#inboxPrefix = inboxPrefix;
  }

  send(subject: string, out: Outgoing, options: RequestOptions): Promise<DirectAnswer> {
    return this.#exchange(subject, out, options, {
      max: 1,
      arrived: (raw) => ({ result: directAnswer(raw) }),
      overdue: () => undefined,
    });
  }

  /** Calls `onAnswer` with each answer until it returns true, or until the time is over. */
  gather(
    subject: string,
    out: Outgoing,
    options: RequestOptions,
    onAnswer: (answer: Message) => boolean,
  ): Promise<void> {
    const ended = { result: undefined };
    return this.#exchange<void>(subject, out, options, {
      arrived: (raw) => (onAnswer(new ReceivedMessage(raw)) ? ended : undefined),
      overdue: () => ended,
    });
  }

  #exchange<T>(
    subject: string,
    out: Outgoing,
    { timeoutMs, signal }: RequestOptions,
    { max, arrived, overdue }: Exchange<T>,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#obstacle !== undefined) throw new BusError(this.#obstacle, { subject });
      const settle = (report: () => void): void => {
        if (!this.#open.delete(request)) return;
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        if (!subscription.isClosed()) subscription.unsubscribe();
        report();
      };
      const end = (outcome: { readonly result: T } | undefined): void => {
        if (outcome !== undefined) settle(() => resolve(outcome.result));
      };
      const fail: OpenRequest["fail"] = (kind, details) =>
        settle(() => reject(new BusError(kind, { subject, ...details })));
      const request: OpenRequest = { subject, fail };
      const { inbox, subscription } = this.#subscribe(subject, max, (error, raw) => {
        if (error !== null) return fail("permission", { reason: error.message });
        if (statusCode(raw) === 503) return fail("no_responders", {});
        end(arrived(raw));
      });
      const onAbort = (): void => void drained(subscription).then(() => settle(() => reject(signal?.reason)));
      const onTimeout = (): void =>
        void drained(subscription).then(() => {
          end(overdue());
          fail("timeout", { timeout_ms: timeoutMs });
        });
      const timer = setTimeout(onTimeout, timeoutMs);
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#open.add(request);
      try {
        const headers = wireHeaders(out);
        this.#connection.publish(subject, out.body, { reply: inbox, ...(headers && { headers }) });
      } catch (error) {
        settle(() => reject(busError(error, { subject, size_bytes: out.body.length })));
      }
    });
  }

  /** On a lost connection, all open requests fail: their answers cannot arrive any more. */
  connectionChanged(connected: boolean): void {
    if (this.#obstacle === "closed") return;
    this.#obstacle = connected ? undefined : "unavailable";
    if (!connected) this.#failAll("timeout", { reason: "the connection was lost" });
  }

  /** The server refused our messages to this subject. */
  denied(subject: string, reason: string): void {
    for (const request of [...this.#open])
      if (request.subject === subject) request.fail("permission", { reason });
  }

  close(): void {
    this.#obstacle = "closed";
    this.#failAll("closed", {});
  }

  #failAll(kind: BusErrorKind, details: Readonly<Record<string, unknown>>): void {
    for (const request of [...this.#open]) request.fail(kind, details);
  }

  #subscribe(
    subject: string,
    max: number | undefined,
    callback: (error: Error | null, raw: Msg) => void,
  ): { inbox: string; subscription: Subscription } {
    const inbox = createInbox(inboxPrefixFor(subject, this.#inboxPrefix));
    try {
      const options = { callback, ...(max !== undefined && { max }) };
      return { inbox, subscription: this.#connection.subscribe(inbox, options) };
    } catch (error) {
      throw busError(error, { subject });
    }
  }
}

function directAnswer(raw: Msg): DirectAnswer {
  const status = statusCode(raw);
  return {
    message: new ReceivedMessage(raw),
    status,
    reason: status === 0 ? "" : (raw.headers?.description ?? ""),
  };
}

/** Resolves when the server has removed the subscription and all its messages have arrived. Never rejects. */
async function drained(subscription: Subscription): Promise<void> {
  try {
    if (!subscription.isClosed()) await subscription.drain();
  } catch {
    // The connection is lost, and with it the subscription.
  }
}
