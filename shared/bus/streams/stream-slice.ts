/** A slice of a stream, read once and in order by a temporary consumer. */
import { AckPolicy, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import { nanos } from "@nats-io/transport-node";
import type { StreamAccess } from "../consume/consume.ts";

/** The server removes the consumer of a crashed reader after this time. */
const CONSUMER_MS = 10_000;
const FETCH_MS = 2_000;

export interface StreamSlice {
  /** The number of messages up to the stream's end, when the slice was opened. */
  readonly waiting: number;
  /** At most the first `limit` messages, and only before position `end`. `limit` must not exceed `waiting`. */
  read(limit: number, end?: number): Promise<JsMsg[]>;
}

export async function withSlice<T>(
  { client, manager }: StreamAccess,
  stream: string,
  o: { readonly fromSeq: number; readonly filter?: string; readonly headersOnly?: boolean },
  read: (slice: StreamSlice) => Promise<T>,
): Promise<T> {
  const { name, num_pending } = await manager.consumers.add(stream, {
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: o.fromSeq,
    headers_only: o.headersOnly ?? false,
    mem_storage: true,
    inactive_threshold: nanos(CONSUMER_MS),
    ...(o.filter !== undefined && { filter_subject: o.filter }),
  });
  try {
    return await read({
      waiting: num_pending,
      async read(limit, end = Number.POSITIVE_INFINITY) {
        if (limit === 0) return [];
        const consumer = await client.consumers.get(stream, name);
        const found: JsMsg[] = [];
        for await (const message of await consumer.fetch({ max_messages: limit, expires: FETCH_MS })) {
          if (message.seq >= end) break;
          found.push(message);
          if (found.length === limit) break;
        }
        return found;
      },
    });
  } finally {
    await manager.consumers.delete(stream, name).catch(() => false);
  }
}
