/**
 * The monitored owners: the agents that own a task and send heartbeats about it, or promised to, each under
 * its fence and with the time of its last heartbeat. They are kept in memory; the leases in the store tell
 * other watchdogs.
 */
import type { LeaseKey } from "../../../shared/records/recovery/leases.ts";
import { createWake, type Wake } from "../../../shared/runtime/clock.ts";

/** The pause between two rounds of a loop over the owners. */
const PAUSE_MS = { withOwners: 250, withoutOwners: 5_000 };

export interface MonitoredOwner extends LeaseKey {
  readonly agentId: string;
  readonly agentType: string;
  /** The silence timeout of the agent type. */
  readonly silenceMs: number;
  /** The last sign of life by the observed clock. */
  heardAt: number;
  /** The last sign of life by the wall clock. */
  lastSignAt: number;
  /** Heartbeats arrive, but the step is past its deadline. */
  isOverdue: boolean;
  /** The end of the lease in the store, as far as it is known, by the wall clock. */
  leaseUntil: number;
  /** The last check of the ownership in the store, by the observed clock. */
  checkedAt: number;
  /** The owner is not reported as silent before this time, by the observed clock. */
  notBefore: number;
}

/** All times are those of the observed clock. */
export class MonitoredOwners {
  readonly #byName = new Map<string, MonitoredOwner>();
  readonly #owners = new Set<MonitoredOwner>();
  readonly #wakes: Wake[] = [];
  /** A lower bound of the first silence timeout: heartbeats only postpone it. */
  #nextAt = Number.POSITIVE_INFINITY;

  get size(): number {
    return this.#owners.size;
  }

  all(): Iterable<MonitoredOwner> {
    return this.#owners;
  }

  has(owner: MonitoredOwner): boolean {
    return this.#owners.has(owner);
  }

  get(key: LeaseKey): MonitoredOwner | undefined {
    return this.#byName.get(nameOf(key));
  }

  /**
   * The pause of one loop: short while there are owners, of which `soonestMs` may make it shorter, and long without. The first owner ends it.
   * Each loop has its own, so that none misses that.
   */
  pause(soonestMs: () => number = () => PAUSE_MS.withOwners): { readonly ms: number; readonly wake: Wake } {
    const ms = (): number =>
      this.size === 0 ? PAUSE_MS.withoutOwners : Math.min(PAUSE_MS.withOwners, Math.max(1, soonestMs()));
    return {
      get ms() {
        return ms();
      },
      wake: this.whenFirst(),
    };
  }

  /** A wake of the caller's own, which the first owner notifies. */
  whenFirst(): Wake {
    const wake = createWake();
    this.#wakes.push(wake);
    return wake;
  }

  /** Replaces an entry with the same key. */
  add(owner: MonitoredOwner): void {
    this.drop(owner);
    if (this.size === 0) for (const wake of this.#wakes) wake.notify();
    this.#byName.set(nameOf(owner), owner);
    this.#owners.add(owner);
    this.#nextAt = Math.min(this.#nextAt, silentAt(owner, Number.NEGATIVE_INFINITY));
  }

  drop(key: LeaseKey): void {
    const known = this.get(key);
    if (known === undefined) return;
    this.#byName.delete(nameOf(key));
    this.#owners.delete(known);
  }

  /** Does not report the owner as silent before `untilMs`. */
  postpone(owner: MonitoredOwner, untilMs: number): void {
    owner.notBefore = untilMs;
    this.#nextAt = Math.min(this.#nextAt, untilMs);
  }

  /** The owners whose silence timeout has passed at `nowMs`. Silence counts from `sinceMs` on. */
  silent(nowMs: number, sinceMs: number): MonitoredOwner[] {
    if (nowMs < this.#nextAt) return [];
    const silent: MonitoredOwner[] = [];
    let nextAt = Number.POSITIVE_INFINITY;
    for (const owner of this.#owners) {
      const at = silentAt(owner, sinceMs);
      if (at <= nowMs) silent.push(owner);
      else nextAt = Math.min(nextAt, at);
    }
    // A silent owner is reported again until it is dropped, postponed or heard.
    this.#nextAt = silent.length > 0 ? nowMs : nextAt;
    return silent;
  }

  /** Milliseconds from `nowMs` in which no owner can become silent. */
  quietMs(nowMs: number): number {
    return Math.max(0, this.#nextAt - nowMs);
  }
}

/** When the silence timeout passes if the owner is not heard again. */
export function silentAt({ heardAt, silenceMs, notBefore }: MonitoredOwner, sinceMs: number): number {
  return Math.max(Math.max(heardAt, sinceMs) + silenceMs, notBefore);
}

const nameOf = ({ tenant, task, fence }: LeaseKey): string => `${tenant}/${task}/${fence}`;
