/**
 * Reads a stream without consuming from it: its size, its messages, one message; and removes some. For the
 * questions of operators. The services' own work uses consumers.
 */
import { JetStreamApiCodes, JetStreamApiError, type JsMsg, type MsgRequest } from "@nats-io/jetstream";
import type { MsgHdrs } from "@nats-io/transport-node";
import {
  BusError,
  type ErasedMessages,
  type StoredBody,
  type StoredHead,
  type StreamState,
  type StreamView,
} from "../bus.ts";
import { busError } from "../bus-errors.ts";
import type { StreamAccess } from "../consume/consume.ts";
import { messageHeaders } from "../request/message.ts";
import { removeStaleConsumers } from "./stale-consumers.ts";
import { withSlice } from "./stream-slice.ts";
import { newest } from "./stream-tail.ts";

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
    list: (fromSeq, limit) =>
      view(async (access) =>
        (await oldest(access, stream, { fromSeq, limit, headersOnly: true })).map(headOf),
      ),
    read: (fromSeq, limit, filter) =>
      view(async (access) =>
        (await oldest(access, stream, { fromSeq, limit, filter, headersOnly: false })).map(bodyOf),
      ),
    get: (seq) =>
      view(async ({ manager }) => {
        const found = await manager.streams.getMessage(stream, { seq });
        return found === null ? null : { ...head(found.subject, seq, found.header), body: found.data };
      }),
    count: (filter) =>
      view(async ({ manager }) => {
        const { state } = await manager.streams.info(stream, { subjects_filter: filter });
        return Object.values(state.subjects ?? {}).reduce((sum, count) => sum + count, 0);
      }),
    newest: (query) => view(async (access) => (await newest(access, stream, query)).map(bodyOf)),
    removeStaleConsumers: () => view((access) => removeStaleConsumers(access, stream)),
    remove: (seq) => view(({ manager }) => remove(manager, stream, seq, { isErased: false })),
    erase: (filter, mayContinue) => view((access) => erase(access, stream, filter, mayContinue)),
  };
}

/** Ends with the message that is the last one now, however many are stored meanwhile. */
async function erase(
  { manager }: StreamAccess,
  stream: string,
  filter: string,
  mayContinue: () => Promise<boolean>,
): Promise<ErasedMessages> {
  const { last_seq: last } = (await manager.streams.info(stream)).state;
  for (let seq = 1; ; ) {
    // The server knows this form, and the library passes it on. A direct read could be answered by a copy that lacks the newest messages.
    const next = { seq, next_by_subj: filter } as MsgRequest;
    const found = await manager.streams.getMessage(stream, next);
    if (found === null || found.seq > last) return "all";
    if (!(await mayContinue())) return "some";
    try {
      await remove(manager, stream, found.seq, { isErased: true });
    } catch (error) {
      if (error instanceof JetStreamApiError && (await manager.streams.info(stream)).config.deny_delete)
        return "denied";
      throw error;
    }
    seq = found.seq + 1;
  }
}

/** False: another process has removed it. `isErased`: its bytes are overwritten. */
async function remove(
  manager: StreamAccess["manager"],
  stream: string,
  seq: number,
  { isErased }: { readonly isErased: boolean },
): Promise<boolean> {
  try {
    return await manager.streams.deleteMessage(stream, seq, isErased);
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** The server has two different answers for a missing message. */
function isMissing(error: unknown): boolean {
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

interface OldestQuery {
  readonly fromSeq: number;
  readonly limit: number;
  readonly headersOnly: boolean;
  readonly filter?: string | undefined;
}

/** Throws BusError, if no message arrives in time although the stream has some. */
async function oldest(
  access: StreamAccess,
  stream: string,
  { limit, filter, ...from }: OldestQuery,
): Promise<JsMsg[]> {
  const slice = { ...from, ...(filter !== undefined && { filter }) };
  return withSlice(access, stream, slice, async ({ waiting, read }) => {
    const messages = await read(Math.min(limit, waiting));
    if (messages.length === 0 && Math.min(limit, waiting) > 0) throw new BusError("timeout", { stream });
    return messages;
  });
}

function headOf({ subject, seq, headers }: JsMsg): StoredHead {
  return head(subject, seq, headers);
}

function bodyOf(message: JsMsg): StoredBody {
  return { ...headOf(message), body: message.data };
}
