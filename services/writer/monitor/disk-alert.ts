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

/** The id of an alert contains the position of the earlier one, so that all writers of the machine give it the same id. */
export function createDiskCheck(context: DiskContext): () => Promise<void> {
  const { disk, metrics } = context;
  const known = new Map<string, Occasion>();
  return async () => {
    for (const state of disk.disks()) {
      for (const use of state.uses) metrics.diskFreeBytes.set({ disk_of: use }, state.freeBytes);
      const occasion = known.get(state.path) ?? { isAlerted: false, earlierSeq: null };
      known.set(state.path, occasion);
      await check(context, state, occasion);
    }
  };
}

interface Occasion {
  isAlerted: boolean;
  /** The newest alert when the disk was last seen relieved. null: not seen since the last alert. */
  earlierSeq: number | null;
}

async function check(context: DiskContext, state: DiskState, occasion: Occasion): Promise<void> {
  const { backgroundBus, disk, clock } = context;
  const newest = () =>
    newestAlert(backgroundBus.stream(STREAMS.alerts), {
      type: TYPE,
      severity: "critical",
      matches: ({ host, path }) => host === hostname() && path === state.path,
    });
  if (isDiskRelieved(state)) {
    occasion.isAlerted = false;
    occasion.earlierSeq ??= (await newest()).seq;
  } else if (isDiskLow(state) && !occasion.isAlerted && !disk.isExhausted("bus")) {
    const earlier = await newest();
    const isNew =
      occasion.earlierSeq === null
        ? clock.now() - earlier.atMs > SAME_OCCASION_MS
        : earlier.seq <= occasion.earlierSeq;
    if (isNew) await raise(context, state, earlier.seq);
    occasion.isAlerted = true;
    occasion.earlierSeq = null;
  }
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
