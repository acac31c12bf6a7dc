/**
 * Who is watched: each task that an agent owns and says so, under its fence, with when it was last heard. In memory; what another watchdog
 * must know of it lies in the store as leases.
 */
import type { LeaseKey } from "../../../shared/records/recovery/leases.ts";

export interface Watch extends LeaseKey {
  readonly agentId: string;
  readonly agentType: string;
  readonly silenceMs: number;
  /** The last sign of life: in attentive milliseconds, and by the wall clock. */
  heardAt: number;
  lastSignAt: number;
  /** It is heard, but its step should have ended long ago. */
  isOverdue: boolean;
  /** As the store has it, as far as is known; by the wall clock. */
  leaseUntil: number;
  /** In attentive milliseconds: when the store was last asked whether the task is the agent's. */
  checkedAt: number;
  /** In attentive milliseconds: nobody needs to look before. */
  notBefore: number;
}

export class Watches {
  readonly #byName = new Map<string, Watch>();
  readonly #watches = new Set<Watch>();
  /** A lower bound of when somebody can be silent: beats only move that away. */
  #nextAt = Number.POSITIVE_INFINITY;

  get size(): number {
    return this.#watches.size;
  }

  all(): Iterable<Watch> {
    return this.#watches;
  }

  has(watch: Watch): boolean {
    return this.#watches.has(watch);
  }

  get(key: LeaseKey): Watch | undefined {
    return this.#byName.get(nameOf(key));
  }

  add(watch: Watch): void {
    this.drop(watch);
    this.#byName.set(nameOf(watch), watch);
    this.#watches.add(watch);
    this.#nextAt = Math.min(this.#nextAt, lapsesAt(watch, Number.NEGATIVE_INFINITY));
  }

  drop(key: LeaseKey): void {
    const known = this.get(key);
    if (known === undefined) return;
    this.#byName.delete(nameOf(key));
    this.#watches.delete(known);
  }

  /** Nobody needs to look at it for a while. */
  postpone(watch: Watch, untilMs: number): void {
    watch.notBefore = untilMs;
    this.#nextAt = Math.min(this.#nextAt, untilMs);
  }

  /** Those who are silent for too long at `nowMs`; silence counts from `sinceMs` on. Attentive milliseconds. */
  silent(nowMs: number, sinceMs: number): Watch[] {
    if (nowMs < this.#nextAt) return [];
    const silent: Watch[] = [];
    let nextAt = Number.POSITIVE_INFINITY;
    for (const watch of this.#watches) {
      const at = lapsesAt(watch, sinceMs);
      if (at <= nowMs) silent.push(watch);
      else nextAt = Math.min(nextAt, at);
    }
    // Those who are silent are looked at again until something is done about them.
    this.#nextAt = silent.length > 0 ? nowMs : nextAt;
    return silent;
  }

  /** How long nobody can become silent, from `nowMs` on. */
  quietMs(nowMs: number): number {
    return Math.max(0, this.#nextAt - nowMs);
  }
}

export function lapsesAt({ heardAt, silenceMs, notBefore }: Watch, sinceMs: number): number {
  return Math.max(Math.max(heardAt, sinceMs) + silenceMs, notBefore);
}

const nameOf = ({ tenant, task, fence }: LeaseKey): string => `${tenant}/${task}/${fence}`;
