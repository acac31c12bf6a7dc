/**
 * Looking into a stream without consuming from it: its numbers, its messages, one message, and taking one out. For people who ask
 * what waits and what went wrong; the services' own work goes through consumers.
 */
import {
  AckPolicy,
  DeliverPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JsMsg,
} from "@nats-io/jetstream";
import type { MsgHdrs } from "@nats-io/transport-node";
import { nanos } from "@nats-io/transport-node";
import type { StoredHead, StreamState, StreamView } from "./bus.ts";
import type { StreamAccess } from "./consume.ts";
import { busError } from "./failure.ts";
import { messageHeaders } from "./message.ts";
import { redeliverReturned } from "./returned.ts";

/** A view that died in the middle leaves nothing behind for longer. */
const VIEW_MS = 10_000;
const FETCH_MS = 2_000;

export function streamView(access: () => Promise<StreamAccess>, stream: string): StreamView {
  const view = async <T>(look: (access: StreamAccess) => Promise<T>): Promise<T> => {
    try {
      return await look(await access());
    } catch (error) {
      throw busError(error, { stream });
    }
  };
  return {
    state: () => view((access) => state(access, stream)),
    list: (fromSeq, limit) => view((access) => list(access, stream, fromSeq, limit)),
    get: (seq) =>
      view(async ({ manager }) => {
        const found = await manager.streams.getMessage(stream, { seq });
        return found === null ? null : { ...head(found.subject, seq, found.header), body: found.data };
      }),
    redeliverReturned: () => view((access) => redeliverReturned(access, stream)),
    remove: (seq) =>
      view(async ({ manager }) => {
        try {
          return await manager.streams.deleteMessage(stream, seq, false);
        } catch (error) {
          if (isGone(error)) return false;
          throw error;
        }
      }),
  };
}

/** The server has two answers for a message that is not there. */
function isGone(error: unknown): boolean {
  if (!(error instanceof JetStreamApiError)) return false;
  return error.code === JetStreamApiCodes.NoMessageFound || /no message found|not found/.test(error.message);
}

function head(subject: string, seq: number, headers: MsgHdrs | undefined): StoredHead {
  return { subject, seq, headers: messageHeaders(headers) };
}

async function state({ manager }: StreamAccess, stream: string): Promise<StreamState> {
  const { config, state } = await manager.streams.info(stream);
  return {
    messages: state.messages,
    bytes: state.bytes,
    bytesMax: config.max_bytes,
    lastSeq: state.last_seq,
    oldestAt: state.messages === 0 ? null : Date.parse(state.first_ts),
  };
}

async function list(
  { client, manager }: StreamAccess,
  stream: string,
  fromSeq: number,
  limit: number,
): Promise<StoredHead[]> {
  const { name, num_pending } = await manager.consumers.add(stream, {
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: fromSeq,
    headers_only: true,
    mem_storage: true,
    inactive_threshold: nanos(VIEW_MS),
  });
  try {
    const max_messages = Math.min(limit, num_pending);
    if (max_messages === 0) return [];
    const consumer = await client.consumers.get(stream, name);
    const found: StoredHead[] = [];
    for await (const message of await consumer.fetch({ max_messages, expires: FETCH_MS })) {
      found.push(stored(message));
      if (found.length === max_messages) break;
    }
    return found;
  } finally {
    await manager.consumers.delete(stream, name).catch(() => false);
  }
}

function stored(message: JsMsg): StoredHead {
  return head(message.subject, message.seq, message.headers);
}
