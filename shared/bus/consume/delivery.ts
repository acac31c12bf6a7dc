/**
 * Deliveries on behalf of another: a service has the next message of a stream delivered to the inbox of its
 * caller, and settles it later. The service keeps no state. The server drops the request when it is over or
 * when the inbox has no subscriber any more, and delivers an unsettled message again.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import { BusError, type ConsumeOptions, type RequestOptions, type Settlement } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import type { Requests } from "../request/request.ts";
import { ensureConsumer, NANOS_PER_MS, type StreamAccess } from "./consume.ts";

/** A stream without answers must not occupy the service until it refuses other requests. */
const CHECK_MS = 1_000;

/** A pull request to a missing durable would remain without any answer, so it is checked each time. */
export async function deliverNext(
  access: StreamAccess,
  connection: NatsConnection,
  o: ConsumeOptions,
  { inbox, waitMs }: { inbox: string; waitMs: number },
): Promise<void> {
  const fields = { stream: o.stream, durable: o.durable };
  try {
    await within(CHECK_MS, ensureConsumer(access, o), fields);
    const pull = JSON.stringify({ batch: 1, expires: waitMs * NANOS_PER_MS });
    connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${o.stream}.${o.durable}`, pull, { reply: inbox });
  } catch (error) {
    throw busError(error, fields);
  }
}

/** The caller has checked that `delivery` names a delivery which may be settled. */
export async function settleDelivery(
  requests: Requests,
  delivery: string,
  settlement: Settlement,
  o: RequestOptions,
): Promise<void> {
  await requests.send(delivery, { body: Buffer.from(bodyOf(settlement)) }, o);
}

function bodyOf(settlement: Settlement): string {
  switch (settlement.kind) {
    case "ack":
      return "+ACK";
    case "working":
      return "+WPI";
    case "dead":
      return "+TERM";
    case "giveBack":
      return `-NAK ${JSON.stringify({ delay: settlement.pauseMs * NANOS_PER_MS })}`;
  }
}

async function within(
  ms: number,
  work: Promise<void>,
  fields: Readonly<Record<string, unknown>>,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const overdue = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new BusError("timeout", fields)), ms);
  });
  try {
    await Promise.race([work, overdue]);
  } finally {
    clearTimeout(timer);
  }
}
