/** Watches the streams of queued commands and dead letters: their numbers, and settled commands that came back. */
import type { Bus } from "../../shared/bus/bus.ts";
import { STREAMS } from "../../shared/protocol/subjects.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";

const GAUGE_EVERY_MS = 5_000;
const REDELIVER_EVERY_MS = 15_000;

export function startQueueMonitor(context: ServiceContext & { readonly backgroundBus: Bus }): Stop {
  const { backgroundBus, metrics, clock, log } = context;
  const queue = backgroundBus.stream(STREAMS.queue);
  const dead = backgroundBus.stream(STREAMS.dead);
  const stopGauges = startTicker({
    name: "queue depth",
    everyMs: GAUGE_EVERY_MS,
    jitter: 0.1,
    run: async () => {
      const { messages, oldestAt } = await queue.state();
      metrics.queueDepth.set(messages);
      metrics.queueOldestAgeMs.set(oldestAt === null ? 0 : Math.max(0, clock.now() - oldestAt));
      metrics.deadLetters.set((await dead.state()).messages);
    },
    clock,
    log,
  });
  const stopRedelivery = startTicker({
    name: "returned commands",
    everyMs: REDELIVER_EVERY_MS,
    jitter: 0.3,
    run: async () => void (await queue.redeliverReturned()),
    clock,
    log,
  });
  return async () => {
    await Promise.all([stopGauges(), stopRedelivery()]);
  };
}
