/**
 * Requests over shared inboxes. The library's own request makes two stack traces and a timer race for each
 * call and reaches half of this rate. Here a request is one entry in a map, and one slow timer ends the
 * overdue ones.
 *
 * A lost connection ends every open request at once with `timeout`: it may or may not have been carried out,
 * and a longer wait cannot tell. Without a connection a request fails with `unavailable`: nothing was sent.
 */
import { randomBytes } from "node:crypto";
import { createInbox, errors, type Msg, type MsgHdrs, type NatsConnection } from "@nats-io/transport-node";
import { isForClients } from "../../protocol/subjects.ts";
import { BusError, type BusErrorKind, type Message, type Outgoing, type RequestOptions } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { inboxPrefixFor } from "./inbox.ts";
import { ReceivedMessage, statusCode, wireHeaders } from "./message.ts";

/** The maximum delay of a timeout. */
const SWEEP_MS = 20;
/** Too many to be guessed. */
const TOKEN_BYTES = 16;

interface Settle {
  readonly resolve: (message: Message) => void;
  readonly reject: (error: unknown) => void;
}

interface Pending extends Settle {
  readonly subject: string;
  readonly inbox: string;
  readonly deadline: number;
  readonly timeoutMs: number;
}

export class Requests {
  readonly #connection: NatsConnection;
  /** The prefix of the inboxes for requests whose subject names no caller. */
  readonly #inboxPrefix: string;
  /** One inbox for each caller, because services answer only to the inbox of the caller that the subject names; and one for what it asks other clients. */
  readonly #inboxes = new Map<string, string>();
  readonly #pending = new Map<string, Pending>();
  #counter = 0;
  /** The reason why nothing can be sent now. */
  #obstacle: "unavailable" | "closed" | undefined;
  #sweeper: NodeJS.Timeout | undefined;

  /** `inboxPrefix`: that of the connection's own inboxes. */
  constructor(connection: NatsConnection, inboxPrefix: string) {
    this.#connection = connection;
    this.#inboxPrefix = inboxPrefix;
    this.#inboxBelow(inboxPrefix);
  }

  send(
    subject: string,
    out: Outgoing,
    o: RequestOptions & { headers?: Readonly<Record<string, string>> },
  ): Promise<Message> {
    return new Promise<Message>((resolve, reject) => {
      o.signal?.throwIfAborted();
      if (this.#obstacle !== undefined) throw new BusError(this.#obstacle, { subject });
      const token = this.#tokenFor(subject);
      const inbox = this.#inboxBelow(inboxPrefixFor(subject, this.#inboxPrefix));
      this.#publish(subject, out.body, inbox + token, wireHeaders(out, o.headers));
      const deadline = performance.now() + o.timeoutMs;
      const settle =
        o.signal === undefined ? { resolve, reject } : this.#abortable(token, o.signal, { resolve, reject });
      this.#pending.set(token, { subject, inbox, deadline, timeoutMs: o.timeoutMs, ...settle });
      this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS);
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
    for (const [token, pending] of this.#pending) {
      if (pending.subject === subject) this.#fail(token, pending, "permission", { reason });
    }
  }

  close(): void {
    this.#obstacle = "closed";
    this.#failAll("closed", {});
    clearInterval(this.#sweeper);
  }

  /** Sends without an answer, on the same connection and therefore in order with the requests. */
  post(subject: string, out: Outgoing, more?: Readonly<Record<string, string>>): void {
    this.#publish(subject, out.body, undefined, wireHeaders(out, more));
  }

  #publish(subject: string, body: Uint8Array, reply: string | undefined, headers: MsgHdrs | undefined): void {
    try {
      this.#connection.publish(subject, body, { ...(reply && { reply }), ...(headers && { headers }) });
    } catch (error) {
      throw busError(error, { subject, size_bytes: body.length });
    }
  }

  /** A client that answers sees the reply subject: from it, it must not learn that of another request. */
  #tokenFor(subject: string): string {
    if (isForClients(subject)) return randomBytes(TOKEN_BYTES).toString("base64url");
    return (++this.#counter).toString(36);
  }

  #inboxBelow(prefix: string): string {
    const known = this.#inboxes.get(prefix);
    if (known !== undefined) return known;
    const inbox = `${createInbox(prefix)}.`;
    this.#connection.subscribe(`${inbox}*`, {
      callback: (error, raw) => {
        if (error === null) return this.#arrived(inbox, raw);
        // The server refused the subscription: the connection may not act as this caller.
        this.#inboxes.delete(prefix);
        this.#refused(inbox, error.message);
      },
    });
    this.#inboxes.set(prefix, inbox);
    return inbox;
  }

  #refused(inbox: string, reason: string): void {
    for (const [token, pending] of this.#pending) {
      if (pending.inbox === inbox) this.#fail(token, pending, "permission", { reason });
    }
  }

  #arrived(inbox: string, raw: Msg): void {
    const token = raw.subject.slice(inbox.length);
    const pending = this.#pending.get(token);
    if (pending?.inbox !== inbox) return;
    this.#pending.delete(token);
    if (statusCode(raw) === 503) {
      const cause = new errors.NoRespondersError(pending.subject);
      pending.reject(new BusError("no_responders", { subject: pending.subject }, cause));
    } else pending.resolve(new ReceivedMessage(raw));
  }

  #sweep(): void {
    const now = performance.now();
    for (const [token, pending] of this.#pending) {
      if (pending.deadline <= now) this.#fail(token, pending, "timeout", { timeout_ms: pending.timeoutMs });
    }
    if (this.#pending.size > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  /** Adds a third outcome to the two given: the caller aborts. */
  #abortable(token: string, signal: AbortSignal, { resolve, reject }: Settle): Settle {
    const onAbort = () => {
      this.#pending.delete(token);
      reject(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    const release = () => signal.removeEventListener("abort", onAbort);
    return {
      resolve: (message) => {
        release();
        resolve(message);
      },
      reject: (error) => {
        release();
        reject(error);
      },
    };
  }

  #fail(
    token: string,
    pending: Pending,
    kind: BusErrorKind,
    details: Readonly<Record<string, unknown>>,
  ): void {
    this.#pending.delete(token);
    pending.reject(new BusError(kind, { subject: pending.subject, ...details }));
  }

  #failAll(kind: BusErrorKind, details: Readonly<Record<string, unknown>>): void {
    for (const [token, pending] of this.#pending) this.#fail(token, pending, kind, details);
  }
}
