/**
 * From heartbeats to watches. What an agent says of its task is checked against the store before anybody relies on it: only the owner of
 * a task, under its fence, is watched. Whoever never said anything is not: nobody promised that it would.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import { type Heard, listenToHeartbeats } from "../../../shared/service-host/heartbeat-subscription.ts";
import { type Claim, Claims } from "./claimed-tasks.ts";
import type { Attention } from "./observed-clock.ts";
import { owned } from "./ownership.ts";
import type { Watch, Watches } from "./watches.ts";

/** By so much a step may be late; clocks and beats are not exact. */
const STEP_GRACE_MS = LIMITS.heartbeat_ms;
const IDLE_MS = 250;
const CHECK_EVERY_MS = 5_000;
/** Whoever has lost its task beats on until it notices. */
const CHECKED_FOR_MS = 60_000;
const PAGE = 500;

export interface HearingParts extends ServiceContext {
  readonly bus: Bus;
  readonly attention: Attention;
  readonly watches: Watches;
  readonly silenceOf: (tenant: string, agentType: string) => number;
}

type Repository = Pick<CheckpointRepository, "recovery">;

/** Resolves when it hears. */
export async function startHearing(parts: HearingParts, repository: Repository): Promise<Stop> {
  const { bus, attention, watches, silenceOf, clock, log } = parts;
  const claims = new Claims();
  /** What their beats were about last; to look that up by its names takes longer than all else about a beat. */
  const last = new WeakMap<Heard, { readonly beat: Heard["beat"]; readonly watch: Watch }>();
  const onBeat = (heard: Heard): void => {
    const { tenant, beat } = heard;
    const known = last.get(heard);
    if (known?.beat === beat && watches.has(known.watch)) {
      renew(known.watch, heard, attention.now());
      return;
    }
    const { task_id: task, fence } = beat;
    if (task === undefined || fence === undefined) return;
    const found = watches.get({ tenant, task, fence });
    if (found?.agentId === beat.agent_id) {
      const watch = typed(found, beat.agent_type);
      last.set(heard, { beat, watch });
      renew(watch, heard, attention.now());
    } else {
      claims.hear(heard, task, fence, attention.now());
    }
  };
  /** Whoever only promised to be heard had not said of which type it is, nor how long it may be silent. */
  const typed = (watch: Watch, agentType: string): Watch => {
    if (watch.agentType === agentType) return watch;
    const now = { ...watch, agentType, silenceMs: silenceOf(watch.tenant, agentType), leaseUntil: 0 };
    watches.add(now);
    return now;
  };
  const stopping = new AbortController();
  const settling = runWorker<Claim[]>({
    name: "claims",
    take: async () => {
      const due = claims.due(attention.now());
      return due.length === 0 ? [] : [due];
    },
    handle: async (due) => {
      for (const claim of await claims.settle(repository, due, attention.now()))
        watches.add(watchOf(claim, silenceOf(claim.tenant, claim.agentType)));
    },
    idle: { ms: IDLE_MS, wake: claims.wake },
    signal: stopping.signal,
    clock,
    log,
  });
  const stopChecking = startTicker({
    name: "watches check",
    everyMs: CHECK_EVERY_MS,
    run: () => check(parts, repository),
    clock,
    log,
  });
  const heartbeats = await listenToHeartbeats({ bus, clock, log, onBeat });
  return async () => {
    await heartbeats.stop();
    stopping.abort();
    await Promise.all([settling, stopChecking()]);
  };
}

/** A step that should have ended long ago is no sign of life, however loudly its agent's heart beats. */
function renew(watch: Watch, { lastAt, stepEndsAt }: Heard, attentiveMs: number): void {
  watch.isOverdue = stepEndsAt !== null && lastAt > stepEndsAt + STEP_GRACE_MS;
  if (watch.isOverdue) return;
  watch.heardAt = attentiveMs;
  watch.lastSignAt = lastAt;
}

function watchOf(
  { tenant, task, fence, agentId, agentType, heard, heardAt }: Claim,
  silenceMs: number,
): Watch {
  const who = { tenant, task, fence, agentId, agentType, silenceMs };
  const { lastAt: lastSignAt } = heard;
  return { ...who, heardAt, lastSignAt, isOverdue: false, leaseUntil: 0, checkedAt: heardAt, notBefore: 0 };
}

/** Lets go of those whose task is somebody else's by now. */
async function check({ watches, attention }: HearingParts, repository: Repository): Promise<void> {
  const nowMs = attention.now();
  const old = [...watches.all()].filter(({ checkedAt }) => nowMs - checkedAt > CHECKED_FOR_MS);
  for (let from = 0; from < old.length; from += PAGE) {
    const page = old.slice(from, from + PAGE);
    const answers = await owned(repository, page);
    const gone = page.filter((_, i) => !answers[i]);
    await repository.recovery.dropLeases(gone);
    for (const watch of gone) watches.drop(watch);
    for (const watch of page) watch.checkedAt = nowMs;
  }
}
