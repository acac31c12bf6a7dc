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
import { AlertOccasion } from "./alert-occasion.ts";
import { newestAlert } from "./earlier-alert.ts";

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

/** A writer that has not seen the stream below 70 % takes the earlier alert for the current one, unless all messages in the stream are newer. */
export function createFillCheck(context: FillContext, stream: string): () => Promise<void> {
  const { backgroundBus: bus, metrics } = context;
  const view = bus.stream(stream);
  const kind = {
    type: TYPE,
    severity: "warning",
    matches: (data: { stream: string }) => data.stream === stream,
  } as const;
  const occasion = new AlertOccasion(() => newestAlert(bus.stream(STREAMS.alerts), kind));

  return async () => {
    const state = await view.state();
    metrics.streamFillRatio.set({ stream }, fillRatio(state));
    if (isRelieved(state)) await occasion.relieve(async () => isRelieved(await view.state()));
    else if (isNearlyFull(state))
      await occasion.alertOnce(
        (earlierSeq) => raise(context, stream, state, earlierSeq),
        (earlierAtMs) => (state.oldestAt ?? 0) > earlierAtMs,
      );
  };
}

async function raise(
  { backgroundBus: bus, clock, log, metrics }: FillContext,
  stream: string,
  { messages, bytes, bytesMax }: StreamState,
  earlierSeq: number,
): Promise<void> {
  const alert = alertOf(TYPE, "warning", {
    tenant: DEFAULT_TENANT,
    task: NO_TASK,
    occasion: `nearly-full-${stream}-${earlierSeq}`,
    nowMs: clock.now(),
    data: { stream, messages, bytes, bytesMax },
  });
  await publishAlert({ bus, metrics, log }, alert);
}
