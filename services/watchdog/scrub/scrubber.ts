/**
 * Scrubbing as a duty: of all watchdogs one at a time reads everything that is stored again, at a bounded rate, and says what does not
 * verify. Where it stands is in the store, so another instance goes on from there when this one is gone.
 */

import type { Bus } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { ScrubTally } from "../../../shared/protocol/scrub.ts";
import type { Format } from "../../../shared/records/kv/format.ts";
import { createDuty } from "../../../shared/records/leader/leader-lease.ts";
import { requireLease } from "../../../shared/records/leader/lease.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { KeptFinding } from "../../../shared/records/scrub/findings.ts";
import { type ScrubStepDone, stepScrub, tellFindings } from "../../../shared/records/scrub/scrub.ts";
import type { CorruptVersion } from "../../../shared/records/scrub/scrub-reader.ts";
import { readScrubStatus, SCRUB_DUTY, type ScrubSettings } from "../../../shared/records/scrub/state.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { runTicker } from "../../../shared/runtime/ticker.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import { openRepository } from "../../../shared/service-host/repository.ts";
import type { Store } from "../../../shared/store/store.ts";

/** How soon a request is seen. */
const POLL_MS = 500;
const GAUGE_EVERY_MS = 2_000;
const READ_DEADLINE_MS = 2_000;

export interface ScrubbingContext extends ServiceContext {
  readonly store: Store;
  readonly backgroundBus: Bus;
  readonly format: Format;
  /** Names this instance in leases. */
  readonly instance: string;
}

/** Starts at once. Stop finishes the step under way and gives the duty back. */
export function startScrubbing(context: ScrubbingContext, settings: ScrubSettings): Stop {
  const { store, clock, log } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const repository = openRepository(context, { finder: "watchdog" });
  const duty = createDuty(store, SCRUB_DUTY, context.instance, () => clock.now());
  const yielding = createBackgroundThrottle(clock);
  const pace = createPace(clock, settings.rateBytes);
  const working = runWorker({
    name: "scrub",
    take: async () => {
      await yielding.pause(signal);
      const lease = await duty.hold();
      if (lease === null) return [];
      const guard = (tx: Parameters<typeof requireLease>[0]) => requireLease(tx, lease);
      await tellFindings({ store, guard }, (finding) => tell(context, finding));
      const quarantine = (corrupt: CorruptVersion) => keep(context, repository, corrupt);
      const step = await stepScrub({ store, settings, now: () => clock.now(), guard, quarantine });
      return step === null ? [] : [step];
    },
    handle: async (step) => {
      report(context, step);
      await pace.rest(step.read, signal);
    },
    idle: { ms: POLL_MS },
    signal,
    clock,
    log,
  });
  const measuring = runTicker({
    name: "scrub age",
    everyMs: GAUGE_EVERY_MS,
    jitter: 0.1,
    run: () => measure(context),
    signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await Promise.all([working, measuring]);
    await duty.release().catch((error: unknown) => log.warn({ error }, "a lease could not be given back"));
  };
}

/** What was read is paid for with time: whatever the steps are, no more is read in a while than the rate allows. */
function createPace(clock: Clock, rateBytes: number) {
  let paidUntilMs = clock.monotonic();
  return {
    async rest({ bytes, tasks }: ScrubTally, signal: AbortSignal): Promise<void> {
      const cost = Math.max(bytes, tasks * LIMITS.scrub_task_bytes_min);
      paidUntilMs = Math.max(paidUntilMs, clock.monotonic()) + (cost / rateBytes) * 1_000;
      const restMs = paidUntilMs - clock.monotonic();
      if (restMs > 0) await clock.sleep(restMs, signal);
    },
  };
}

/** A task whose records are damaged takes no mark; that it is damaged is a finding of its own. */
async function keep(
  { log }: ScrubbingContext,
  repository: CheckpointRepository,
  { tenant, task, corrupt }: CorruptVersion,
): Promise<void> {
  try {
    await repository.quarantine(tenant, task, [corrupt]);
  } catch (error) {
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") throw error;
    log.error({ error, tenant, task_id: task, ...corrupt }, "a corrupt checkpoint could not be quarantined");
  }
}

async function tell(context: ScrubbingContext, finding: KeptFinding): Promise<void> {
  const { tenant, task_id: task, id, kind, details, found_at } = finding;
  const alert = alertOf("SCRUB_FOUND", kind === "version" ? "warning" : "critical", {
    tenant,
    task,
    // Mended and damaged in the same way again, it is another alert.
    occasion: `scrub-${id}-${Date.parse(found_at)}`,
    nowMs: Date.parse(found_at),
    data: { taskId: task, kind, details },
  });
  await publishAlert({ ...context, bus: context.backgroundBus }, alert);
}

function report({ log, metrics }: ScrubbingContext, { kind, pass, read, fresh }: ScrubStepDone): void {
  // Another instance wrote; what it did is its to say.
  if (kind === "overtaken") return;
  metrics.scrubCheckpointsTotal.inc(read.checkpoints + read.versions);
  metrics.scrubBytesTotal.inc(read.bytes);
  for (const { tenant, task, ...found } of fresh) {
    metrics.scrubFindingsTotal.inc({ kind: found.kind });
    log.error({ tenant, task_id: task, ...found }, "the scrubber found damage");
  }
  const { began_at, ...counts } = pass;
  if (kind === "began") log.info({ pass: pass.pass }, "scrub began");
  else if (kind === "ended") log.info({ began_at, ...counts }, "scrub ended");
  else log.debug(counts, "scrub step done");
}

async function measure({ store, clock, metrics }: ScrubbingContext): Promise<void> {
  const options = { label: "scrub_age", deadlineMs: READ_DEADLINE_MS };
  const nowMs = clock.now();
  const { current, last } = await store.read(options, (reader) => readScrubStatus(reader, nowMs));
  const since = (time: string): number => Math.max(0, nowMs - Date.parse(time)) / 1_000;
  metrics.scrubPassSeconds.set(current === null ? 0 : since(current.began_at));
  if (last !== null) metrics.scrubAgeSeconds.set(since(last.ended_at));
}
