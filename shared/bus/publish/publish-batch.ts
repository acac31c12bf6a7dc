/**
 * Publishes a batch in order. A server with atomic batches stores all of it with a handful of disk syncs.
 * Other servers get the messages of one key in sequence and different keys in parallel.
 *
 * Both ways may be mixed within one batch, which makes failures harmless. After an atomic batch of unknown
 * outcome the messages are sent one by one: stored ones count as duplicates, and the batch is refused as a
 * whole if it arrives late, because its ids are known. So within the stream's duplicate window no message is
 * stored twice or out of order.
 */
import { randomUUID } from "node:crypto";
import { groupBy } from "../../protocol/group-by.ts";
import { HEADERS } from "../../protocol/subjects.ts";
import type { DurableOptions, OrderedMessage } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { type Publisher, publishDurable, publishOnce } from "./publish.ts";

const BATCH_COUNT_MAX = 1_000;
const BATCH_ATTEMPT_MS = 3_000;
/** The number of parallel chains. More would only queue at the server. */
const CHAIN_COUNT_MAX = 64;

/** The stream of a subject, if it accepts atomic batches. */
export type AtomicStreamOf = (subject: string) => Promise<string | undefined> | string | undefined;

export async function publishOrdered(
  publisher: Publisher & { readonly atomicStreamOf: AtomicStreamOf },
  messages: readonly OrderedMessage[],
  o: Omit<DurableOptions, "messageId">,
): Promise<void> {
  const end = performance.now() + o.timeoutMs;
  for (let at = 0; at < messages.length; at += BATCH_COUNT_MAX) {
    const batch = messages.slice(at, at + BATCH_COUNT_MAX);
    if (
      batch.length > 1 &&
      (await isOneStream(batch, publisher.atomicStreamOf)) &&
      (await storeBatch(publisher, batch, end))
    ) {
      continue;
    }
    await storeChains(publisher, batch, end, o);
  }
}

async function isOneStream(
  batch: readonly OrderedMessage[],
  atomicStreamOf: AtomicStreamOf,
): Promise<boolean> {
  const first = await atomicStreamOf(batch[0]!.subject);
  if (first === undefined) return false;
  for (const { subject } of batch) {
    const stream = atomicStreamOf(subject);
    // Only the first lookup of a stream is asynchronous. This saves a turn of the event loop per message.
    if ((stream instanceof Promise ? await stream : stream) !== first) return false;
  }
  return true;
}

/** False: the outcome is unknown, or the batch was refused. The messages can still be sent one by one. */
async function storeBatch(
  { requests, ids }: Publisher,
  batch: readonly OrderedMessage[],
  end: number,
): Promise<boolean> {
  const id = randomUUID();
  const headersOf = (message: OrderedMessage, place: number) => ({
    [HEADERS.messageId]: ids.of(message.messageId),
    "Nats-Batch-Id": id,
    "Nats-Batch-Sequence": String(place + 1),
  });
  const last = batch.length - 1;
  try {
    for (const [place, message] of batch.entries()) {
      if (place < last) requests.post(message.subject, message, headersOf(message, place));
    }
    const message = batch[last]!;
    await publishOnce(requests, message.subject, message, {
      timeoutMs: Math.max(1, Math.min(end - performance.now(), BATCH_ATTEMPT_MS)),
      headers: { ...headersOf(message, last), "Nats-Batch-Commit": "1" },
    });
    return true;
  } catch (error) {
    const failure = busError(error);
    if (!failure.retryable) throw failure;
    return false;
  }
}

async function storeChains(
  publisher: Publisher,
  batch: readonly OrderedMessage[],
  end: number,
  o: Omit<DurableOptions, "messageId">,
): Promise<void> {
  const chains = groupBy(batch, (message) => message.orderKey).values();
  let failure: unknown;
  const publishChains = async () => {
    for (const chain of chains) {
      for (const message of chain) {
        if (failure !== undefined) return;
        const timeoutMs = Math.max(1, end - performance.now());
        const { subject, messageId } = message;
        await publishDurable(publisher, subject, message, { ...o, messageId, timeoutMs });
      }
    }
  };
  const guarded = () =>
    publishChains().catch((error) => {
      failure ??= error;
    });
  // All chains end before the caller gets the failure, so that none publishes afterwards.
  await Promise.all(Array.from({ length: Math.min(CHAIN_COUNT_MAX, batch.length) }, guarded));
  if (failure !== undefined) throw failure;
}
