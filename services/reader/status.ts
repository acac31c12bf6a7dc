/** The state of the fleet in one answer: health, backlogs, counts. UNAVAILABLE if the store is unreadable. */
import type { FleetStatus } from "../../shared/protocol/queries.ts";
import { readCheckpointCount, readCount } from "../../shared/records/kv/counters.ts";
import { asFleetError } from "../../shared/records/kv/store-errors.ts";
import { outboxBacklog } from "../../shared/records/outbox/outbox.ts";
import { readIndexStatus } from "../../shared/records/search/index-state.ts";
import { packageVersion } from "../../shared/runtime/process/installation.ts";
import { recentResult } from "../../shared/runtime/recent-result.ts";
import { diskStatus } from "../../shared/service-host/diagnosis.ts";
import type { Reader } from "../../shared/store/store.ts";
import type { ReaderContext } from "./context.ts";

const READ_DEADLINE_MS = 2_000;
const HEALTH_TIMEOUT_MS = 1_000;
const INSPECTION_MS = 1_000;

const version = packageVersion();

export function createStatus({
  store,
  bus,
  clock,
  disk,
  encryption = null,
}: ReaderContext): () => Promise<FleetStatus> {
  const begin = clock.monotonic();
  const recorded = async (reader: Reader) => {
    const { depth, oldestMs } = await outboxBacklog(reader);
    return {
      index: await readIndexStatus(reader),
      outbox: { depth, oldest_ms: oldestMs === null ? 0 : Math.max(0, clock.now() - oldestMs) },
      counts: {
        tasks: await readCount(reader, "tasks"),
        checkpoints: await readCheckpointCount(reader),
        events: await readCount(reader, "events"),
      },
    };
  };
  // The bus's health says why the streams cannot be inspected.
  const findStreamFaults = () => bus.inspectStreams({ repair: false }).catch(() => []);
  // One inspection sends more than a dozen requests to the bus.
  const inspect = recentResult(findStreamFaults, { maxAgeMs: INSPECTION_MS, clock });
  return async () => {
    const options = { label: "status", deadlineMs: READ_DEADLINE_MS };
    const [storeHealth, busHealth, findings, records] = await Promise.all([
      store.health({ timeoutMs: HEALTH_TIMEOUT_MS }),
      bus.health({ timeoutMs: HEALTH_TIMEOUT_MS }),
      inspect(),
      store.read(options, recorded).catch((error: unknown) => {
        throw asFleetError(error);
      }),
    ]);
    return {
      version,
      store: {
        engine: store.name,
        ok: storeHealth.ok,
        detail: storeHealth.detail,
        encrypted: encryption !== null,
      },
      bus: { ...busHealth, server_version: bus.serverVersion },
      findings,
      disks: disk.disks().map(diskStatus),
      ...records,
      uptime_ms: Math.round(clock.monotonic() - begin),
    };
  };
}
