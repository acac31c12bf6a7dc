/**
 * Alerts operators before the queue or the stream of dead letters is full: once at 80 % of its bytes, and again
 * only after it was below 70 %.
 */
import type { Bus, StreamState } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf, NO_TASK } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { fillRatio, isNearlyFull, isRelieved } from "../../../shared/protocol/stream-fill.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { type EarlierAlert, newestAlert } from "./earlier-alert.ts";

const TYPE = "STREAM_NEARLY_FULL";
const CHECK_EVERY_MS = 5_000;

type FillContext = Pick<ServiceContext, "clock" | "log" | "metrics"> & { readonly backgroundBus: Bus };

export function startFillMonitor(context: FillContext): Stop {
  const checks = [createFillCheck(context, STREAMS.dead), createFillCheck(context, STREAMS.queue)];
  return startTicker({
    name: "fill of streams",
    everyMs: CHECK_EVERY_MS,
    jitter: 0.1,
    run: async () => {
      for (const check of checks) await check();
    },
    ...context,
  });
}

/**
 * The id of an alert contains the position of the earlier alert of its stream, so that all writers give it the
 * same id. A writer that has not seen the stream below 70 % since it started takes the earlier alert for the
 * current one, unless all messages in the stream are newer.
 */
export function createFillCheck(
  { backgroundBus: bus, clock, log, metrics }: FillContext,
  stream: string,
): () => Promise<void> {
  const view = bus.stream(stream);
  const alerts = bus.stream(STREAMS.alerts);
  let isAlerted = false;
  /** The newest alert when the stream was last seen below 70 %. null: not seen since the last alert. */
  let earlierSeq: number | null = null;

  const newest = () =>
    newestAlert(alerts, {
      type: TYPE,
      severity: "warning",
      matches: (data) => data.stream === stream,
    });

  const raise = async (state: StreamState, earlier: EarlierAlert): Promise<void> => {
    const { messages, bytes, bytesMax } = state;
    const alert = alertOf(TYPE, "warning", {
      tenant: DEFAULT_TENANT,
      task: NO_TASK,
      occasion: `nearly-full-${stream}-${earlier.seq}`,
      nowMs: clock.now(),
      data: { stream, messages, bytes, bytesMax },
    });
    await publishAlert({ bus, metrics, log }, alert);
  };

  return async () => {
    const state = await view.state();
    metrics.streamFillRatio.set({ stream }, fillRatio(state));
    if (isRelieved(state)) {
      isAlerted = false;
      if (earlierSeq !== null) return;
      const { seq } = await newest();
      // Another writer may have alerted in between.
      if (isRelieved(await view.state())) earlierSeq = seq;
    } else if (isNearlyFull(state) && !isAlerted) {
      const earlier = await newest();
      const isNew = earlierSeq === null ? (state.oldestAt ?? 0) > earlier.atMs : earlier.seq <= earlierSeq;
      if (isNew) await raise(state, earlier);
      isAlerted = true;
      earlierSeq = null;
    }
  };
}
