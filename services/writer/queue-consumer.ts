/**
 * Draining the queue: one durable consumer for each partition with one message under way, so that a task's commands are applied in
 * their order through crashes and redelivery, by whichever writer asks. While the store is away a message in hand is held; after some
 * time it is given back and nothing more is asked for, so that a writer that alone cannot reach the store does not hold up the others.
 */
import type { DurableMessage } from "../../shared/bus/bus.ts";
import { startConsumers } from "../../shared/bus/consume/background-consumer.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { createApplying } from "./apply-queued.ts";
import type { WriterParts } from "./context.ts";

/**
 * A writer that died with a message in hand delays its partition by so much. One that only stood still may come back to a command that
 * another has applied meanwhile, which is harmless.
 */
const ACK_WAIT_MS = 5_000;
const WORKING_EVERY_MS = 1_500;
/** Requests for messages wait long, because nearly always there are none. */
const PULL_MS = 60_000;
const HOLD_MS = 15_000;
const LOOK_EVERY_MS = 1_000;

/** Starts in the background: a queue that cannot be drained yet is no reason not to serve. */
export function startDraining(context: WriterParts): Stop {
  const { breaker, backgroundBus: bus, clock, log } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const settle = createApplying(context);

  const round = async (): Promise<void> => {
    const partitions = Array.from({ length: LIMITS.queue_partition_count }, (_, partition) => ({
      options: {
        stream: STREAMS.queue,
        durable: `writer-${partition}`,
        filters: [SUBJECTS.queuedPartition(partition)],
        maxAckPending: 1,
        ackWaitMs: ACK_WAIT_MS,
        pullMs: PULL_MS,
      },
      handle: (message: DurableMessage, ending: AbortSignal) =>
        inHand(message, () => settle(message, ending)),
    }));
    const stop = startConsumers({ bus, clock, log }, partitions);
    while (!signal.aborted && breaker.openMs < HOLD_MS) await clock.sleep(LOOK_EVERY_MS, signal);
    await stop();
  };

  const running = (async () => {
    while (!signal.aborted) {
      await breaker.closed(signal);
      if (!signal.aborted) await round();
    }
  })();
  return async () => {
    stopping.abort();
    await running;
  };
}

/** Tells the server again and again that the message is not forgotten. */
async function inHand(message: DurableMessage, settle: () => Promise<void>): Promise<void> {
  const telling = setInterval(() => {
    try {
      message.working();
    } catch {
      // The connection is closed; the message comes again after its wait.
    }
  }, WORKING_EVERY_MS);
  try {
    await settle();
  } finally {
    clearInterval(telling);
  }
}
