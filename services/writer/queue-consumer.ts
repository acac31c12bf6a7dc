/**
 * Consumes the queue. Each partition has one durable consumer with one open message, which all writers share,
 * so that a task's commands are applied in order through crashes and redelivery. While the store is
 * unavailable, the writer holds its message. After some time it gives the message back and stops consuming,
 * so that a writer that alone cannot reach the store does not delay the others.
 */
import type { DurableMessage } from "../../shared/bus/bus.ts";
import { startConsumers } from "../../shared/bus/consume/background-consumer.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { createQueuedHandler } from "./apply-queued.ts";
import type { WriterParts } from "./context.ts";

/**
 * A writer that died with an open message delays its partition by this time. A writer that was only paused
 * may apply a command that another has applied meanwhile, which is harmless.
 */
const ACK_WAIT_MS = 5_000;
const WORKING_EVERY_MS = 1_500;
/** Pull requests wait long, because the queue is nearly always empty. */
const PULL_MS = 60_000;
const HOLD_MS = 15_000;
const CHECK_EVERY_MS = 1_000;

/** Starts in the background, because a writer serves requests also without the queue. */
export function startQueueConsumer(context: WriterParts): Stop {
  const { breaker, backgroundBus: bus, clock, log, disk } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const settle = createQueuedHandler(context);

  const hasSpace = (): boolean => disk.fullDisk("store") === undefined;

  const consumeWhileUp = async (): Promise<void> => {
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
        keepAlive(message, () => settle(message, ending)),
    }));
    const stop = startConsumers({ bus, clock, log }, partitions);
    while (!signal.aborted && breaker.openMs < HOLD_MS && hasSpace())
      await clock.sleep(CHECK_EVERY_MS, signal);
    await stop();
  };

  const running = (async () => {
    while (!signal.aborted) {
      await breaker.closed(signal);
      while (!signal.aborted && !hasSpace()) await clock.sleep(CHECK_EVERY_MS, signal);
      if (!signal.aborted) await consumeWhileUp();
    }
  })();
  return async () => {
    stopping.abort();
    await running;
  };
}

/** Restarts the acknowledgement wait until the message is settled. */
async function keepAlive(message: DurableMessage, settle: () => Promise<void>): Promise<void> {
  const timer = setInterval(() => {
    try {
      message.working();
    } catch {
      // The connection is closed. The message is delivered again after its wait.
    }
  }, WORKING_EVERY_MS);
  try {
    await settle();
  } finally {
    clearInterval(timer);
  }
}
