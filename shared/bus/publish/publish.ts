/**
 * Publishes to a stream. It resolves when the server has stored the message. It may be repeated with the same
 * id: within the stream's duplicate window the server keeps one copy.
 *
 * No responders is a normal state for a few seconds: a restarting server accepts connections before its
 * streams are ready, and a cluster has no leader for some seconds after a failure. So it is retried like a
 * timeout.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { HEADERS } from "../../protocol/subjects.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { BusError, type DurableOptions, type Outgoing, type PublishAck } from "../bus.ts";
import { busError, streamError } from "../bus-errors.ts";
import type { Requests } from "../request/request.ts";
import type { MessageIds } from "./message-ids.ts";

const ATTEMPT_MS = 2_000;
const PAUSE_MS = { first: 50, last: 500 };
const MISSING = 404;

interface RawAck {
  readonly stream?: string;
  readonly seq?: number;
  readonly duplicate?: boolean;
  readonly error?: { code?: number; err_code?: number; description?: string };
}

export interface Publisher {
  readonly requests: Requests;
  readonly ids: MessageIds;
  readonly log: Logger;
}

export async function publishDurable(
  { requests, ids, log }: Publisher,
  subject: string,
  out: Outgoing,
  o: DurableOptions,
): Promise<PublishAck> {
  const end = performance.now() + o.timeoutMs;
  const isSecret = ids.areSecret && o.isSharedId !== true;
  const idOf = (copy: number): string => {
    const name = copy === 0 ? o.messageId : `${o.messageId} ${copy}`;
    return isSecret ? ids.of(name) : name;
  };
  const { expectsRemoval = false } = o;
  const isCopy = o.isCopy ?? ((stored: Uint8Array) => Buffer.compare(stored, out.body) === 0);
  let unknown: BusError | undefined;
  let copy = 0;
  for (let pauseMs = PAUSE_MS.first; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MS.last)) {
    const leftMs = end - performance.now();
    try {
      const timeoutMs = Math.max(1, Math.min(leftMs, ATTEMPT_MS));
      const headers = { [HEADERS.messageId]: idOf(copy) };
      const ack = await publishOnce(requests, subject, out, { timeoutMs, headers });
      if (
        !ack.duplicate ||
        !isSecret ||
        (await isStored(requests, ack, { subject, isCopy, timeoutMs, expectsRemoval }))
      )
        return ack;
      // The next id is also the same for every repetition.
      copy += 1;
      log.error(
        { subject, stream: ack.stream, seq: ack.seq },
        "another message has the id of this one, publishing under another id",
      );
      continue;
    } catch (error) {
      const failure = busError(error, { subject });
      if (failure.kind === "timeout") unknown = failure;
      const isOver = end - performance.now() <= pauseMs || (o.refuseFull && failure.kind === "stream_full");
      if (!failure.retryable || isOver) throw unknown ?? failure;
    }
    await sleep(pauseMs);
  }
}

/** Whether the message that the stream reports as a copy is this one; `expectsRemoval` if it was removed since. */
async function isStored(
  requests: Requests,
  { stream, seq }: PublishAck,
  {
    subject,
    isCopy,
    timeoutMs,
    expectsRemoval,
  }: {
    readonly subject: string;
    readonly isCopy: (stored: Uint8Array) => boolean;
    readonly timeoutMs: number;
    readonly expectsRemoval: boolean;
  },
): Promise<boolean> {
  const body = Buffer.from(JSON.stringify({ seq }));
  const answer = await requests.send(`$JS.API.STREAM.MSG.GET.${stream}`, { body }, { timeoutMs });
  const { message, error } = JSON.parse(Buffer.from(answer.body).toString()) as {
    readonly message?: { readonly subject: string; readonly data?: string };
    readonly error?: RawAck["error"];
  };
  if (error?.code === MISSING) return expectsRemoval;
  if (error !== undefined) throw streamError(error, { stream, seq });
  const stored = Buffer.from(message?.data ?? "", "base64");
  return message?.subject === subject && isCopy(stored);
}

/** One attempt. `headers` are added to the message's own. */
export async function publishOnce(
  requests: Requests,
  subject: string,
  out: Outgoing,
  o: { timeoutMs: number; headers: Readonly<Record<string, string>> },
): Promise<PublishAck> {
  const answer = await requests.send(subject, out, o);
  return parseAck(answer.body, subject);
}

function parseAck(body: Uint8Array, subject: string): PublishAck {
  let ack: RawAck;
  try {
    ack = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString()) as RawAck;
  } catch (error) {
    throw new BusError("unavailable", { subject, reason: "the answer is not that of a stream" }, error);
  }
  if (ack.error !== undefined) throw streamError(ack.error, { subject });
  if (typeof ack.stream !== "string" || typeof ack.seq !== "number") {
    throw new BusError("unavailable", { subject, reason: "the answer is not that of a stream" });
  }
  return { stream: ack.stream, seq: ack.seq, duplicate: ack.duplicate === true };
}
