/**
 * Runs the follower of the file mirror in one reader at a time, under a lease. The wake-up keys of the outbox wake it. A failure delays files and
 * nothing else: it is logged once until the mirror works again, and counted each time.
 */

import { DiskSync, syncFileSystem } from "../../../shared/mirror/disk-sync.ts";
import { MirrorThread } from "../../../shared/mirror/file-thread.ts";
import {
  type MirrorParts,
  type MirrorStep,
  mirrorIdentity,
  stepMirror,
} from "../../../shared/mirror/follower.ts";
import type { LeaderLease } from "../../../shared/records/leader/leader-lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import type { Mirror } from "../../../shared/service-host/mirror.ts";
import { followTransitions } from "../../../shared/service-host/store/follow-transitions.ts";
import type { ReaderContext } from "../context.ts";

/** For a missed wake-up. */
const POLL_MS = 2_000;
/** The minimum interval between two wake-ups by one key: later commits join the step. */
const REST_MS = 50;
/**
 * A file must follow its commit within 200 ms, also on a busy thread: a commit may wait for the step before it, this pause and its own step. A
 * mirror that is behind has missed that, and leaves the time to the writes.
 */
const PAUSE_MS_MAX = { usual: 30, behind: 60 };
const RETRY_MS = 2_000;

/** Stop finishes the current step and releases the lease. */
export function startMirror(context: ReaderContext, mirror: Mirror): Stop {
  const { store, clock, log, metrics } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const leader = context.leases.of("mirror");
  let pace: keyof typeof PAUSE_MS_MAX = "usual";
  const throttle = createBackgroundThrottle(clock, { pauseMsMax: () => PAUSE_MS_MAX[pace] });
  const trouble = createTrouble(context, mirror);
  let files: MirrorThread | undefined;
  const disk = new DiskSync(
    () => syncFileSystem(mirror.path),
    () => clock.monotonic(),
    (error) => trouble.note("sync", { error }),
  );
  const partsOf = async (): Promise<MirrorParts> => {
    const seal = await mirror.seal();
    files ??= new MirrorThread(mirror.path, seal);
    return { store, files, disk, identity: mirrorIdentity(context.format, seal) };
  };
  const takeStep = async (): Promise<MirrorStep[]> => {
    try {
      const step = await nextStep(mirror, partsOf, leader, trouble);
      pace = step?.more === true ? "behind" : "usual";
      return step === null ? [] : [step];
    } catch (error) {
      trouble.note("failed", { error });
      await clock.sleep(RETRY_MS, signal);
      return [];
    }
  };
  const working = followTransitions({
    name: "file mirror",
    store,
    take: () => throttle.step(takeStep, signal),
    handle: async ({ committedMs, unsafe }) => {
      for (const ms of committedMs) metrics.mirrorLagMs.observe(Math.max(0, clock.now() - ms));
      for (const path of unsafe) trouble.note("unsafe", { path });
    },
    pollMs: POLL_MS,
    restMs: () => REST_MS,
    signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await working;
    await files?.close();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

/** null: there is nothing to copy, or another reader copies, or there is no room. */
async function nextStep(
  { hasRoom }: Mirror,
  partsOf: () => Promise<MirrorParts>,
  leader: LeaderLease,
  trouble: Trouble,
): Promise<MirrorStep | null> {
  if ((await leader.hold()) === null) return null;
  if (!hasRoom()) {
    trouble.note("disk_low", {});
    return null;
  }
  const step = await stepMirror(await partsOf(), async () => (await leader.hold()) !== null);
  trouble.end();
  return step;
}

type Cause = "failed" | "disk_low" | "unsafe" | "sync";

type Trouble = ReturnType<typeof createTrouble>;

/** One log line for each cause until the mirror works again, however often it is tried. */
function createTrouble({ log, metrics }: ReaderContext, { path }: Mirror) {
  const known = new Set<Cause>();
  return {
    note(cause: Cause, details: Readonly<Record<string, unknown>>): void {
      metrics.mirrorFailuresTotal.inc({ cause });
      if (known.has(cause)) return;
      known.add(cause);
      log.warn({ cause, folder: path, ...details }, "the file mirror does not receive checkpoints");
    },
    end(): void {
      for (const cause of ["failed", "disk_low"] as const)
        if (known.delete(cause))
          log.info({ cause, folder: path }, "the file mirror receives checkpoints again");
    },
  };
}
