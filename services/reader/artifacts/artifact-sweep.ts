/**
 * Removes artifacts without a reference, uploads that did not end, and bytes that a crash left. One instance at a time does this, under
 * a lease that each of its transactions checks.
 */
import { partsOf } from "../../../shared/protocol/artifacts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import {
  type ArtifactSweep,
  dueRecords,
  isLeftOver,
  removeDue,
} from "../../../shared/records/artifacts/sweep.ts";
import type { LeaderLease } from "../../../shared/records/leader/leader-lease.ts";
import { type Lease, requireLease } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { ArtifactHolding } from "../../../shared/service-host/artifacts.ts";
import type { ReaderContext } from "../context.ts";

const EVERY_MS_MAX = 5 * 60_000;
const READ_DEADLINE_MS = 2_000;

export function startArtifactSweep(context: ReaderContext, artifacts: ArtifactHolding): Stop {
  const { leases, clock, log } = context;
  const leader = leases.of("artifacts");
  const stop = startTicker({
    name: "artifact sweep",
    everyMs: Math.min(EVERY_MS_MAX, artifacts.graceMs / 4),
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      await removeUnreferenced(context, { artifacts, leader, signal });
      await removeLeftOvers(context, { artifacts, leader, signal });
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

interface Pass {
  readonly artifacts: ArtifactHolding;
  readonly leader: LeaderLease;
  readonly signal: AbortSignal;
}

async function removeUnreferenced(
  { store, clock, log, metrics }: ReaderContext,
  { artifacts, leader, signal }: Pass,
): Promise<void> {
  const throttle = createBackgroundThrottle(clock);
  const { graceMs, bytes } = artifacts;
  const parts = { store, service: "reader", now: () => clock.now(), graceMs };
  const guarded = (lease: Lease): ArtifactSweep => ({ ...parts, guard: (tx) => requireLease(tx, lease) });
  const first = await leader.hold();
  if (first === null) return;
  for await (const candidate of dueRecords(guarded(first), DEFAULT_TENANT)) {
    const lease = await leader.hold();
    if (lease === null || signal.aborted) return;
    const { tenant, kind, id } = candidate;
    const removed = await throttle.step(() => removeDue(guarded(lease), candidate), signal);
    if (removed === null) continue;
    await bytes.remove({ tenant, upload: removed.upload, parts: partsOf(removed.size) });
    if (kind === "artifact") metrics.artifactsRemovedTotal.inc();
    log.info({ tenant, kind, id }, "artifact or upload without a reference removed");
  }
}

async function removeLeftOvers(
  { store, clock, log }: ReaderContext,
  { artifacts: { bytes, graceMs }, leader, signal }: Pass,
): Promise<void> {
  if ((await leader.hold()) === null) return;
  for await (const stored of bytes.list()) {
    const { tenant, upload } = stored;
    if (signal.aborted || (await leader.hold()) === null) return;
    const reading = { label: "artifact_left_over", deadlineMs: READ_DEADLINE_MS };
    if (!(await store.read(reading, (reader) => isLeftOver(reader, tenant, upload)))) continue;
    await bytes.remove(stored);
    log.info({ tenant, upload }, "bytes of an artifact without a record removed");
  }
  if (signal.aborted || (await leader.hold()) === null) return;
  const fragments = await bytes.removeFragments(clock.now() - graceMs);
  if (fragments > 0) log.info({ fragments }, "fragments of interrupted uploads removed");
}
