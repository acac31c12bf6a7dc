/**
 * Publishing a batch in order. A server that knows atomic batches stores all of it with a handful of disk syncs; elsewhere the
 * messages of one key go one after the other and the keys go side by side.
 *
 * Both ways may be mixed on one batch, and that is what makes failures harmless: after a batch of unknown outcome the messages go
 * one by one, those already stored count as duplicates, and a batch that arrives late is refused as a whole because its ids are
 * known. So nothing is stored twice and nothing out of order inside the stream's duplicate window.
 */
import { randomUUID } from "node:crypto";
import { HEADERS } from "../../protocol/subjects.ts";
import type { DurableOptions, OrderedMessage } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import type { Requests } from "../request/request.ts";
import { publishDurable, publishOnce } from "./publish.ts";

const BATCH_COUNT_MAX = 1_000;
const BATCH_ATTEMPT_MS = 3_000;
/** Chains that go side by side; more would only queue up at the server. */
const CHAIN_COUNT_MAX = 64;

/** The stream that takes a subject, if it takes atomic batches. */
export type AtomicStreamOf = (subject: string) => Promise<string | undefined> | string | undefined;

export async function publishOrdered(
  { requests, atomicStreamOf }: { requests: Requests; atomicStreamOf: AtomicStreamOf },
  messages: readonly OrderedMessage[],
  o: Omit<DurableOptions, "messageId">,
): Promise<void> {
  const end = performance.now() + o.timeoutMs;
  for (let at = 0; at < messages.length; at += BATCH_COUNT_MAX) {
    const batch = messages.slice(at, at + BATCH_COUNT_MAX);
    if (
      batch.length > 1 &&
      (await isOneStream(batch, atomicStreamOf)) &&
      (await storeBatch(requests, batch, end))
    ) {
      continue;
    }
    await storeChains(requests, batch, { end, refuseFull: o.refuseFull ?? false });
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
    // Known at once, but for the first of a stream: no turn of the event loop for each message.
    if ((stream instanceof Promise ? await stream : stream) !== first) return false;
  }
  return true;
}

/** False when the outcome is open or the batch was refused; then the messages can still go one by one. */
async function storeBatch(
  requests: Requests,
  batch: readonly OrderedMessage[],
  end: number,
): Promise<boolean> {
  const id = randomUUID();
  const headersOf = (message: OrderedMessage, place: number) => ({
    [HEADERS.messageId]: message.messageId,
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
  requests: Requests,
  batch: readonly OrderedMessage[],
  { end, refuseFull }: { end: number; refuseFull: boolean },
): Promise<void> {
  const chains = Map.groupBy(batch, (message) => message.orderKey).values();
  let failure: unknown;
  const lane = async () => {
    for (const chain of chains) {
      for (const message of chain) {
        if (failure !== undefined) return;
        const timeoutMs = Math.max(1, end - performance.now());
        const { subject, messageId } = message;
        await publishDurable(requests, subject, message, { messageId, timeoutMs, refuseFull });
      }
    }
  };
  const guarded = () =>
    lane().catch((error) => {
      failure ??= error;
    });
  // All lanes end before the caller hears of a failure: a straggler must not publish behind its back.
  await Promise.all(Array.from({ length: Math.min(CHAIN_COUNT_MAX, batch.length) }, guarded));
  if (failure !== undefined) throw failure;
}
