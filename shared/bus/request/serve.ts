/**
 * The answering side. Every request gets exactly one answer at the inbox of its caller: the handler's, that of
 * the party to which the handler forwarded it, the one for a failure, or the one for overload. A request with
 * another reply address, or without one, is dropped. Handlers run directly in the connection's callback. A queue before them
 * would only hide an overload from callers, which can ask another instance or wait.
 */
import type { Msg, NatsConnection, Subscription, SubscriptionOptions } from "@nats-io/transport-node";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Stop } from "../../runtime/process/service.ts";
import type { AddressedMessage, Message, Outgoing, ServeOptions } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { ReceivedMessage, wireHeaders } from "./message.ts";

export async function serve(
  { connection, log }: { connection: NatsConnection; log: Logger },
  subject: string,
  o: ServeOptions,
  handler: (m: AddressedMessage) => Promise<Outgoing | undefined>,
): Promise<Stop> {
  /** The open requests, oldest first, each with its start. */
  const open = new Set<{ readonly at: number }>();
  let idle: (() => void) | undefined;

  const finish = async (message: AddressedMessage): Promise<void> => {
    const own = { at: performance.now() };
    open.add(own);
    try {
      const answer = await handler(message);
      if (answer !== undefined) reply(connection, message, answer);
    } catch (error) {
      log.error({ error, subject: message.subject }, "request handler failed");
      answerSafely(message, () => o.failed(message, error));
    } finally {
      open.delete(own);
      if (open.size === 0) idle?.();
    }
  };
  const isOverloaded = (): boolean => {
    if (open.size >= o.concurrencyMax) return true;
    const [oldest] = open;
    return oldest !== undefined && performance.now() - oldest.at > o.waitMsMax;
  };
  const answerSafely = (message: AddressedMessage, make: () => Outgoing): void => {
    try {
      reply(connection, message, make());
    } catch (error) {
      log.error({ error, subject: message.subject }, "request could not be answered");
    }
  };
  const arrived = (error: Error | null, raw: Msg): void => {
    if (error !== null) {
      log.error({ error, subject }, "service subscription was refused");
      return;
    }
    const message = new ReceivedMessage(raw);
    if (!isAddressed(message) || !o.isOwnReply(message)) o.dropped(message);
    else if (isOverloaded()) answerSafely(message, () => o.overload(message));
    else void finish(message);
  };

  const subscription = openSubscription(connection, subject, { queue: o.queue, callback: arrived });
  await whenSubscribed(connection, subscription, subject);
  return async () => {
    // Draining unsubscribes at the server and then delivers the requests that were already sent to us.
    if (!subscription.isClosed() && !connection.isClosed()) await subscription.drain();
    if (open.size > 0) await new Promise<void>((resolve) => (idle = resolve));
  };
}

export function openSubscription(
  connection: NatsConnection,
  subject: string,
  o: SubscriptionOptions,
): Subscription {
  try {
    return connection.subscribe(subject, o);
  } catch (error) {
    throw busError(error, { subject });
  }
}

/** Resolves when the server has processed the subscription, so that a later request finds it. */
export async function whenSubscribed(
  connection: NatsConnection,
  subscription: Subscription,
  subject: string,
): Promise<void> {
  try {
    await connection.flush();
  } catch (error) {
    // The connection broke just now. The client sends its subscriptions again after the reconnect.
    if (connection.isClosed()) throw busError(error, { subject });
  }
  if (!subscription.isClosed()) return;
  throw busError(await subscription.closed, { subject });
}

function isAddressed(message: Message): message is AddressedMessage {
  return message.replyTo !== undefined;
}

function reply(connection: NatsConnection, message: AddressedMessage, out: Outgoing): void {
  if (connection.isClosed()) return;
  const headers = wireHeaders(out);
  try {
    connection.publish(message.replyTo, out.body, headers === undefined ? {} : { headers });
  } catch (error) {
    throw busError(error, { subject: message.subject, size_bytes: out.body.length });
  }
}
