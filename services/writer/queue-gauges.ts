/** What waits in the queue and among the dead letters, as numbers for whoever watches. */
import type { Bus } from "../../shared/bus/bus.ts";
import { STREAMS } from "../../shared/protocol/subjects.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";

const EVERY_MS = 5_000;

export function startQueueGauges(context: ServiceContext & { readonly backgroundBus: Bus }): Stop {
  const { backgroundBus, metrics, clock, log } = context;
  return startTicker({
    name: "queue depth",
    everyMs: EVERY_MS,
    jitter: 0.1,
    run: async () => {
      const queue = await backgroundBus.stream(STREAMS.queue).state();
      metrics.queueDepth.set(queue.messages);
      metrics.queueOldestAgeMs.set(queue.oldestAt === null ? 0 : Math.max(0, clock.now() - queue.oldestAt));
      metrics.deadLetters.set((await backgroundBus.stream(STREAMS.dead).state()).messages);
    },
    clock,
    log,
  });
}
