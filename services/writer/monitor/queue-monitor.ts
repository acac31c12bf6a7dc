/** Monitors the queue and the dead letters: metrics, redelivery, and an alert when no letter fits. */
import type { Bus, StreamState } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf, NO_TASK } from "../../../shared/protocol/alerts.ts";
import { hasRoomForLetter } from "../../../shared/protocol/dead-letter.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";

const MEASURE_EVERY_MS = 5_000;
const REDELIVER_EVERY_MS = 15_000;

type MonitorContext = ServiceContext & { readonly backgroundBus: Bus };

export function startQueueMonitor(context: MonitorContext): Stop {
  const { backgroundBus, metrics, clock, log } = context;
  const queue = backgroundBus.stream(STREAMS.queue);
  const dead = backgroundBus.stream(STREAMS.dead);
  const alertWhenFull = createFullAlert(context);
  const stopMeasuring = startTicker({
    name: "queue depth",
    everyMs: MEASURE_EVERY_MS,
    jitter: 0.1,
    run: async () => {
      const { messages, oldestAt } = await queue.state();
      metrics.queueDepth.set(messages);
      metrics.queueOldestAgeMs.set(oldestAt === null ? 0 : Math.max(0, clock.now() - oldestAt));
      const letters = await dead.state();
      metrics.deadLetters.set(letters.messages);
      await alertWhenFull(letters);
    },
    clock,
    log,
  });
  const stopRedelivery = startTicker({
    name: "returned commands",
    everyMs: REDELIVER_EVERY_MS,
    jitter: 0.3,
    run: async () => void (await queue.removeStaleConsumers()),
    clock,
    log,
  });
  return async () => {
    await Promise.all([stopMeasuring(), stopRedelivery()]);
  };
}

/**
 * Alerts operators once when the dead letters fill their stream, and again only after there was room. All
 * writers give the alert the same id, also after a restart: while the stream is full, its oldest letter, its
 * limit and the number of removed letters do not change.
 */
function createFullAlert({ backgroundBus: bus, clock, log, metrics }: MonitorContext) {
  let isAlerted = false;
  return async (state: StreamState): Promise<void> => {
    if (hasRoomForLetter(state)) {
      isAlerted = false;
      return;
    }
    if (isAlerted) return;
    const { messages, bytes, bytesMax, lastSeq, oldestAt } = state;
    const alert = alertOf("DEAD_LETTERS_FULL", "critical", {
      tenant: DEFAULT_TENANT,
      task: NO_TASK,
      occasion: `dead-letters-${oldestAt ?? 0}-${lastSeq - messages}-${bytesMax}`,
      nowMs: clock.now(),
      data: { stream: STREAMS.dead, letters: messages, bytes, bytesMax },
    });
    await publishAlert({ bus, metrics, log }, alert);
    isAlerted = true;
  };
}
