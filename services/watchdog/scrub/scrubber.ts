/**
 * The scrubber: reads the whole store and the event stream again at a bounded rate and reports records that
 * fail verification. A
 * leader lease lets one watchdog scrub at a time. The position of the pass is in the store, so another
 * watchdog continues it.
 */
import { contentHash } from "../../../shared/artifacts/content-hash.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { ScrubTally } from "../../../shared/protocol/scrub.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import type { LeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { LeaseLost, requireLease } from "../../../shared/records/leader/lease.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { EventStream } from "../../../shared/records/scrub/events.ts";
import type { KeptFinding } from "../../../shared/records/scrub/findings.ts";
import { alertFindings, type ScrubStepDone, stepScrub } from "../../../shared/records/scrub/scrub.ts";
import type { ArtifactBytes, CorruptCurrentVersion } from "../../../shared/records/scrub/scrub-reader.ts";
import {
  readScrubStatus,
  SCRUB_JOB,
  type ScrubSettings,
  scrubStateKey,
} from "../../../shared/records/scrub/state.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import { type Clock, createWake } from "../../../shared/runtime/clock.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { ArtifactHolding } from "../../../shared/service-host/artifacts.ts";
import { openRepository, type RepositoryContext } from "../../../shared/service-host/repository.ts";
import { wakeOnChange } from "../../../shared/store/key-wake.ts";

/** A request for a pass wakes the scrub; this is for a missed wake-up. */
const POLL_MS = 2_000;
/** The minimum interval between two wake-ups: the steps of a pass change the watched key as well. */
const REST_MS = 500;
const READ_DEADLINE_MS = 2_000;

export interface ScrubberContext extends RepositoryContext {
  readonly backgroundBus: Bus;
  readonly leases: LeaderLeases;
  readonly artifacts?: ArtifactHolding | undefined;
}

/** Stop finishes the step in progress and releases the lease. */
export function startScrubber(context: ScrubberContext, settings: ScrubSettings): Stop {
  const { store, clock, log, artifacts } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const repository = openRepository(context, { finder: "watchdog" });
  const leader = context.leases.of(SCRUB_JOB);
  const throttle = createBackgroundThrottle(clock);
  const wake = createWake();
  const events = eventStream(context.backgroundBus);
  const rateLimit = createRateLimit(clock, settings.rateBytes);
  const beforePart = async (bytes: number): Promise<void> => {
    signal.throwIfAborted();
    if ((await leader.hold()) === null) throw new LeaseLost(SCRUB_JOB);
    await rateLimit.rest({ bytes, tasks: 0 }, signal, LIMITS.leader_renew_ms);
  };
  const bytesOfArtifacts = artifacts && artifactBytes(context, artifacts, beforePart);
  const takeStep = async (): Promise<ScrubStepDone[]> => {
    const lease = await leader.hold();
    if (lease === null) return [];
    const guard = (tx: Parameters<typeof requireLease>[0]) => requireLease(tx, lease);
    await alertFindings({ store, guard }, (finding) => alert(context, finding));
    const quarantine = (corrupt: CorruptCurrentVersion) => quarantineVersion(context, repository, corrupt);
    const now = () => clock.now();
    const scrubbing = { store, events, settings, now, guard, quarantine, artifacts: bytesOfArtifacts };
    const step = await stepScrub(scrubbing);
    return step === null ? [] : [step];
  };
  const scrubbing = runWorker({
    name: "scrub",
    take: () => throttle.step(takeStep, signal),
    handle: async (step) => {
      report(context, step);
      await rateLimit.rest(step.read, signal);
    },
    idle: { ms: POLL_MS, wake },
    signal,
    clock,
    log,
  });
  const watch = { store, key: scrubStateKey(), wake, clock, signal };
  const listening = wakeOnChange({ ...watch, restMs: () => REST_MS });
  const stopMeasuring = context.metrics.registry.measure({
    name: "scrub age",
    run: () => measureAge(context),
    log,
  });
  return async () => {
    stopping.abort();
    await Promise.all([scrubbing, stopMeasuring(), listening]);
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

function eventStream(bus: Bus): EventStream {
  const stream = bus.stream(STREAMS.events);
  return {
    newest: async () => (await stream.state()).lastSeq,
    read: (fromSeq, limit) => stream.read(fromSeq, limit),
  };
}

/**
 * Rests after each step for as long as the rate allows for its bytes, so the size of steps does not matter.
 */
function createRateLimit(clock: Clock, rateBytes: number) {
  let restUntilMs = clock.monotonic();
  return {
    /** `msMax`: while a lease must be held. */
    async rest(
      { bytes, tasks }: Pick<ScrubTally, "bytes" | "tasks">,
      signal: AbortSignal,
      msMax = Number.POSITIVE_INFINITY,
    ): Promise<void> {
      const cost = Math.max(bytes, tasks * LIMITS.scrub_task_bytes_min);
      restUntilMs = Math.max(restUntilMs, clock.monotonic()) + (cost / rateBytes) * 1_000;
      restUntilMs = Math.min(restUntilMs, clock.monotonic() + msMax);
      const restMs = restUntilMs - clock.monotonic();
      if (restMs > 0) await clock.sleep(restMs, signal);
    },
  };
}

function artifactBytes(
  { metrics }: ScrubberContext,
  { bytes, graceMs }: ArtifactHolding,
  beforePart: (bytes: number) => Promise<void>,
): ArtifactBytes {
  return {
    graceMs,
    size: (upload) => bytes.size(upload),
    hash: async (place) => {
      const found = await contentHash(bytes, place, beforePart);
      metrics.scrubArtifactsTotal.inc();
      return "sha256" in found ? found.sha256 : null;
    },
  };
}

/** A task with damaged records cannot be marked. Its damage is a finding of its own. */
async function quarantineVersion(
  { log }: ScrubberContext,
  repository: CheckpointRepository,
  { tenant, task, corrupt }: CorruptCurrentVersion,
): Promise<void> {
  try {
    await repository.quarantine(tenant, task, [corrupt]);
  } catch (error) {
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") throw error;
    log.error({ error, tenant, task_id: task, ...corrupt }, "a corrupt checkpoint could not be quarantined");
  }
}

async function alert(context: ScrubberContext, finding: KeptFinding): Promise<void> {
  const { tenant, task_id: task, id, kind, details, found_at } = finding;
  const found = alertOf("SCRUB_FOUND", kind === "version" ? "warning" : "critical", {
    tenant,
    task,
    // Damage that returns after a repair is another alert.
    occasion: `scrub-${id}-${Date.parse(found_at)}`,
    nowMs: Date.parse(found_at),
    data: { taskId: task, kind, details },
  });
  await publishAlert({ ...context, bus: context.backgroundBus }, found);
}

function report({ log, metrics }: ScrubberContext, { kind, pass, read, fresh }: ScrubStepDone): void {
  // Another instance made the step and reports it.
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

async function measureAge({ store, clock, metrics }: ScrubberContext): Promise<void> {
  const options = { label: "scrub_age", deadlineMs: READ_DEADLINE_MS };
  const nowMs = clock.now();
  const { current, last } = await store.read(options, (reader) => readScrubStatus(reader, nowMs));
  const since = (time: string): number => Math.max(0, nowMs - Date.parse(time)) / 1_000;
  metrics.scrubPassSeconds.set(current === null ? 0 : since(current.began_at));
  if (last !== null) metrics.scrubAgeSeconds.set(since(last.ended_at));
}
