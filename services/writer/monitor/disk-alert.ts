/**
 * Alerts operators while there is still room to store the alert: once when a disk has less than twice its reserve free, and again only
 * after it had a quarter more.
 */
import { hostname } from "node:os";
import type { Bus } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf, NO_TASK } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import {
  type DiskSpace,
  type DiskState,
  isDiskLow,
  isDiskRelieved,
} from "../../../shared/runtime/disk-space.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { AlertOccasion } from "./alert-occasion.ts";
import { newestAlert } from "./earlier-alert.ts";

const TYPE = "DISK_NEARLY_FULL";
/** Short, because a disk may fill within seconds. */
const CHECK_EVERY_MS = 1_000;
/** A writer that starts on a low disk takes an older alert for one of an earlier occasion. */
const SAME_OCCASION_MS = 24 * 60 * 60 * 1_000;

type DiskContext = Pick<ServiceContext, "clock" | "log" | "metrics"> & {
  readonly backgroundBus: Bus;
  readonly disk: DiskSpace;
};

export function startDiskMonitor(context: DiskContext): Stop {
  return startTicker({
    name: "disk space",
    everyMs: CHECK_EVERY_MS,
    jitter: 0.1,
    run: createDiskCheck(context),
    ...context,
  });
}

export function createDiskCheck(context: DiskContext): () => Promise<void> {
  const { clock, disk, metrics } = context;
  const occasions = new Map<string, AlertOccasion>();
  return async () => {
    for (const state of disk.disks()) {
      for (const use of state.uses) metrics.diskFreeBytes.set({ disk_of: use }, state.freeBytes);
      const occasion = occasions.get(state.path) ?? occasionOf(context.backgroundBus, state.path);
      occasions.set(state.path, occasion);
      if (isDiskRelieved(state)) await occasion.relieve();
      else if (isDiskLow(state) && !disk.isExhausted("bus"))
        await occasion.alertOnce(
          (earlierSeq) => raise(context, state, earlierSeq),
          (earlierAtMs) => clock.now() - earlierAtMs > SAME_OCCASION_MS,
        );
    }
  };
}

function occasionOf(bus: Bus, path: string): AlertOccasion {
  const kind = {
    type: TYPE,
    severity: "critical",
    matches: (data: { host: string; path: string }) => data.host === hostname() && data.path === path,
  } as const;
  return new AlertOccasion(() => newestAlert(bus.stream(STREAMS.alerts), kind));
}

async function raise(
  { backgroundBus: bus, clock, log, metrics }: DiskContext,
  { uses, path, freeBytes, totalBytes, minFreeBytes }: DiskState,
  earlierSeq: number,
): Promise<void> {
  const host = hostname();
  const alert = alertOf(TYPE, "critical", {
    tenant: DEFAULT_TENANT,
    task: NO_TASK,
    occasion: `disk-${host.replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 64)}-${uses.join("-")}-${earlierSeq}`,
    nowMs: clock.now(),
    data: { host, diskOf: [...uses], path, freeBytes, totalBytes, minFreeBytes },
  });
  await publishAlert({ bus, metrics, log }, alert);
}
