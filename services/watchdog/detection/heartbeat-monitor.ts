/**
 * The heartbeat monitor: turns heartbeats into monitored owners. A heartbeat's claim to own a task is checked
 * against the store first, so only the owner of a task, under its fence, is monitored. An agent that never
 * sends a heartbeat is not: its silence means nothing.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import {
  type LatestHeartbeat,
  subscribeHeartbeats,
} from "../../../shared/service-host/heartbeat-subscription.ts";
import type { MonitoredOwner, MonitoredOwners } from "./monitored-owners.ts";
import type { ObservedClock } from "./observed-clock.ts";
import { areOwners } from "./ownership.ts";
import { type OwnershipClaim, OwnershipClaims } from "./ownership-claims.ts";

/** How late a step may be: clocks and heartbeats are inexact. */
const STEP_GRACE_MS = LIMITS.heartbeat_ms;
const IDLE_MS = { withClaims: 250, withoutClaims: 5_000 };
const CHECK_EVERY_MS = 5_000;
/** An agent that has lost its task sends heartbeats until it notices. */
const CHECKED_FOR_MS = 60_000;
const PAGE = 500;

export interface HeartbeatMonitorParts extends ServiceContext {
  /** The connection over which heartbeats arrive. */
  readonly bus: Bus;
  readonly observedClock: ObservedClock;
  readonly owners: MonitoredOwners;
  /** The silence timeout of an agent type, in milliseconds. */
  readonly silenceOf: (tenant: string, agentType: string) => number;
}

type Repository = Pick<CheckpointRepository, "recoveryActions">;

export class HeartbeatMonitor {
  readonly owners: MonitoredOwners;
  readonly #parts: HeartbeatMonitorParts;
  readonly #repository: Repository;
  readonly #claims = new OwnershipClaims();
  /**
   * The last heartbeat of each agent and its owner: a lookup by name costs more than all other work for it.
   */
  readonly #last = new WeakMap<
    LatestHeartbeat,
    { readonly beat: LatestHeartbeat["beat"]; readonly owner: MonitoredOwner }
  >();

  constructor(parts: HeartbeatMonitorParts, repository: Repository) {
    this.#parts = parts;
    this.owners = parts.owners;
    this.#repository = repository;
  }

  /** Resolves when heartbeats are received. */
  async start(): Promise<Stop> {
    const { bus, clock, log } = this.#parts;
    const stopping = new AbortController();
    const confirming = this.#confirmClaims(stopping.signal);
    const stopChecking = startTicker({
      name: "owner check",
      everyMs: CHECK_EVERY_MS,
      run: () => this.#dropFormerOwners(),
      clock,
      log,
    });
    const heartbeats = await subscribeHeartbeats({
      bus,
      clock,
      log,
      onBeat: (heard) => this.#receive(heard),
    });
    return async () => {
      await heartbeats.stop();
      stopping.abort();
      await Promise.all([confirming, stopChecking()]);
    };
  }

  #receive(heard: LatestHeartbeat): void {
    const nowMs = this.#parts.observedClock.now();
    const { tenant, beat } = heard;
    const last = this.#last.get(heard);
    if (last?.beat === beat && this.owners.has(last.owner)) {
      renew(last.owner, heard, nowMs);
      return;
    }
    const { task_id: task, fence } = beat;
    if (task === undefined || fence === undefined) return;
    const found = this.owners.get({ tenant, task, fence });
    if (found?.agentId === beat.agent_id) {
      const owner = this.#typed(found, beat.agent_type);
      this.#last.set(heard, { beat, owner });
      renew(owner, heard, nowMs);
    } else {
      this.#claims.add(heard, task, fence, nowMs);
    }
  }

  /**
   * A promise of heartbeats does not name the agent type, and so not the silence timeout; a heartbeat does.
   */
  #typed(owner: MonitoredOwner, agentType: string): MonitoredOwner {
    if (owner.agentType === agentType) return owner;
    const silenceMs = this.#parts.silenceOf(owner.tenant, agentType);
    const typed = { ...owner, agentType, silenceMs, leaseUntil: 0 };
    this.owners.add(typed);
    return typed;
  }

  #confirmClaims(signal: AbortSignal): Promise<void> {
    const { observedClock, silenceOf, clock, log } = this.#parts;
    const claims = this.#claims;
    return runWorker<OwnershipClaim[]>({
      name: "ownership claims",
      take: async () => {
        const due = claims.due(observedClock.now());
        return due.length === 0 ? [] : [due];
      },
      handle: async (due) => {
        for (const claim of await claims.check(this.#repository, due, observedClock.now()))
          this.owners.add(ownerOf(claim, silenceOf(claim.tenant, claim.agentType)));
      },
      idle: {
        get ms() {
          return claims.size === 0 ? IDLE_MS.withoutClaims : IDLE_MS.withClaims;
        },
        wake: claims.wake,
      },
      signal,
      clock,
      log,
    });
  }

  async #dropFormerOwners(): Promise<void> {
    const nowMs = this.#parts.observedClock.now();
    const old = [...this.owners.all()].filter(({ checkedAt }) => nowMs - checkedAt > CHECKED_FOR_MS);
    for (let from = 0; from < old.length; from += PAGE) {
      const page = old.slice(from, from + PAGE);
      const answers = await areOwners(this.#repository, page);
      const former = page.filter((_, i) => !answers[i]);
      await this.#repository.recoveryActions.dropLeases(former);
      for (const owner of former) this.owners.drop(owner);
      for (const owner of page) owner.checkedAt = nowMs;
    }
  }
}

/** A heartbeat is no sign of life while the step is long past its deadline. */
function renew(owner: MonitoredOwner, { lastAt, stepEndsAt }: LatestHeartbeat, observedMs: number): void {
  owner.isOverdue = stepEndsAt !== null && lastAt > stepEndsAt + STEP_GRACE_MS;
  if (owner.isOverdue) return;
  owner.heardAt = observedMs;
  owner.lastSignAt = lastAt;
}

function ownerOf(
  { tenant, task, fence, agentId, agentType, heard, heardAt }: OwnershipClaim,
  silenceMs: number,
): MonitoredOwner {
  const identity = { tenant, task, fence, agentId, agentType, silenceMs };
  const times = { heardAt, lastSignAt: heard.lastAt, leaseUntil: 0, checkedAt: heardAt, notBefore: 0 };
  return { ...identity, ...times, isOverdue: false };
}
