/** A piece of a stream, read once and in order by a consumer that is made for it and leaves no trace. */
import { AckPolicy, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import { nanos } from "@nats-io/transport-node";
import type { StreamAccess } from "../consume/consume.ts";

/** A window that died in the middle leaves nothing behind for longer. */
const WINDOW_MS = 10_000;
const FETCH_MS = 2_000;

export interface Window {
  /** How many messages it held when it was opened, up to the stream's end. */
  readonly waiting: number;
  /** The first `limit` of them, or fewer when one stands at `end` or behind it; `limit` must not be more than `waiting`. */
  read(limit: number, end?: number): Promise<JsMsg[]>;
}

export async function withWindow<T>(
  { client, manager }: StreamAccess,
  stream: string,
  o: { readonly fromSeq: number; readonly filter?: string; readonly headersOnly?: boolean },
  look: (window: Window) => Promise<T>,
): Promise<T> {
  const { name, num_pending } = await manager.consumers.add(stream, {
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: o.fromSeq,
    headers_only: o.headersOnly ?? false,
    mem_storage: true,
    inactive_threshold: nanos(WINDOW_MS),
    ...(o.filter !== undefined && { filter_subject: o.filter }),
  });
  try {
    return await look({
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
