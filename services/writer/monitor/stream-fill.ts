/**
 * Alerts operators before the queue or the stream of dead letters is full: once at 80 % of its bytes, and again
 * only after it was below 70 %.
 */
import type { Bus, StreamState, StreamView } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf, NO_TASK, readAlert } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { fillRatio, isNearlyFull, isRelieved } from "../../../shared/protocol/stream-fill.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";

const TYPE = "STREAM_NEARLY_FULL";
const CHECK_EVERY_MS = 5_000;
/** The number of alerts without a task among which the newest one of a stream is looked up. */
const LOOKUP_COUNT = 100;

type FillContext = Pick<ServiceContext, "clock" | "log" | "metrics"> & { readonly backgroundBus: Bus };

interface EarlierAlert {
  /** Its position in the stream of alerts. 0: there is none. */
  readonly seq: number;
  readonly atMs: number;
}

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
      const { seq } = await newestAlert(alerts, stream);
      // Another writer may have alerted in between.
      if (isRelieved(await view.state())) earlierSeq = seq;
    } else if (isNearlyFull(state) && !isAlerted) {
      const earlier = await newestAlert(alerts, stream);
      const isNew = earlierSeq === null ? (state.oldestAt ?? 0) > earlier.atMs : earlier.seq <= earlierSeq;
      if (isNew) await raise(state, earlier);
      isAlerted = true;
      earlierSeq = null;
    }
  };
}

async function newestAlert(alerts: StreamView, stream: string): Promise<EarlierAlert> {
  const filter = SUBJECTS.alertsOf({ tenant: DEFAULT_TENANT, severity: "warning", task: NO_TASK });
  for (const { seq, body } of await alerts.newest({ filter, limit: LOOKUP_COUNT })) {
    const found = fillAlert(body);
    if (found?.stream === stream) return { seq, atMs: found.atMs };
  }
  return { seq: 0, atMs: 0 };
}

function fillAlert(body: Uint8Array): { readonly stream: string; readonly atMs: number } | null {
  try {
    const alert = readAlert(JSON.parse(Buffer.from(body).toString()));
    if (alert.type !== TYPE) return null;
    return { stream: (alert.data as { stream: string }).stream, atMs: Date.parse(alert.time) };
  } catch {
    return null;
  }
}
