/**
 * The locks of a mission's files, and the table of their changes. Pure: no store, no clock.
 *
 *      free ──acquire──▶ held ──renew──▶ held;  held ──release──▶ free, or held by the longest waiter
 *      held by another ──acquire──▶ waiting ──deadline──▶ timed out
 */
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { LockSnapshot } from "../../protocol/mission.ts";
import type { LockRelease } from "../../protocol/mission-locks.ts";

export interface LockClaim {
  readonly lock_id: string;
  readonly agent_id: string;
  readonly sortie_id: string | null;
  readonly purpose: string;
  readonly timeout_ms: number;
}

export interface LockWaiter extends LockClaim {
  readonly since: string;
  readonly deadline: string;
}

export interface HeldLock extends LockClaim {
  readonly path: string;
  /** The number of the audit entry of the acquisition, so it grows with every acquisition. */
  readonly fence: number;
  readonly acquired_at: string;
  readonly expires_at: string;
  readonly waiters: readonly LockWaiter[];
}

/** A file that no agent holds has no lock. Ordered by path. */
export interface LockTable {
  readonly locks: readonly HeldLock[];
}

export const NO_LOCKS: LockTable = { locks: [] };

type LockAction =
  | { readonly op: "lock_acquire" | "lock_renew"; readonly lock: HeldLock }
  | { readonly op: "lock_release"; readonly lock: HeldLock; readonly reason: LockRelease }
  | { readonly op: "lock_wait" | "lock_timeout"; readonly lock: HeldLock; readonly waiter: LockWaiter };

/** One transition, and the table after it. */
export type LockChange = LockAction & { readonly after: LockTable };

export interface LockRequest extends LockClaim {
  readonly path: string;
  /** 0: the agent does not wait. */
  readonly wait_ms: number;
}

export type LockOutcome =
  | { readonly state: "held" | "timed_out"; readonly lock: HeldLock }
  | { readonly state: "waiting"; readonly lock: HeldLock; readonly waiter: LockWaiter };

/** The changes of one transaction. */
export class LockChanges {
  readonly changes: LockChange[] = [];
  readonly #nowMs: number;
  readonly #firstSeq: number;
  #table: LockTable;

  /** `firstSeq`: the number of the audit entry of the first change. */
  constructor(table: LockTable, { nowMs, firstSeq }: { nowMs: number; firstSeq: number }) {
    this.#table = table;
    this.#nowMs = nowMs;
    this.#firstSeq = firstSeq;
  }

  get table(): LockTable {
    return this.#table;
  }

  find(path: string): HeldLock | undefined {
    return this.#table.locks.find((lock) => lock.path === path);
  }

  /** Ends the waits and the locks whose time is over. An agent whose wait is over may be gone, so it gets no lock. */
  expire(): this {
    const isOver = (at: string) => Date.parse(at) <= this.#nowMs;
    for (const { path, waiters } of this.#table.locks) {
      for (const waiter of waiters) if (isOver(waiter.deadline)) this.#timeOut(path, waiter);
    }
    for (const lock of this.#table.locks) if (isOver(lock.expires_at)) this.release(lock.path, "expired");
    return this;
  }

  /**
   * A request of an agent that waits changes its deadline. Throws CONFLICT while another agent holds the file and the
   * request does not wait, or too many wait.
   */
  request({ path, wait_ms, ...claim }: LockRequest): LockOutcome {
    const held = this.find(path);
    if (held === undefined) return { state: "held", lock: this.grant(path, claim, []) };
    if (held.agent_id === claim.agent_id)
      return { state: "held", lock: this.#renew({ ...held, ...claim, lock_id: held.lock_id }) };
    const known = held.waiters.find(({ agent_id }) => agent_id === claim.agent_id);
    if (known !== undefined)
      return this.#waitAgain(held, { ...known, ...claim, lock_id: known.lock_id }, wait_ms);
    const details = { path, held_by: held.agent_id, until: held.expires_at, waiters: held.waiters.length };
    if (wait_ms === 0) throw new FleetError("CONFLICT", "another agent holds the file", { details });
    if (held.waiters.length >= LIMITS.lock_waiters_count_max) {
      throw new FleetError("CONFLICT", "too many agents wait for the file", { details });
    }
    const waiter = { ...claim, since: this.#at(0), deadline: this.#at(wait_ms) };
    const lock = { ...held, waiters: [...held.waiters, waiter] };
    this.#push({ op: "lock_wait", lock, waiter }, lock);
    return { state: "waiting", lock, waiter };
  }

  /** Throws NOT_FOUND unless the agent holds the file. */
  renew(path: string, agent: string, timeoutMs: number | undefined): HeldLock {
    const held = this.requireHeld(path, agent);
    return this.#renew({ ...held, timeout_ms: timeoutMs ?? held.timeout_ms });
  }

  /** Throws NOT_FOUND if no agent holds the file, or another one than `agent`. */
  requireHeld(path: string, agent?: string): HeldLock {
    const held = this.find(path);
    if (held !== undefined && (agent === undefined || held.agent_id === agent)) return held;
    const details = { path, held_by: held?.agent_id ?? null };
    throw new FleetError("NOT_FOUND", "the agent does not hold the file", { details });
  }

  /** Ends the wait of an agent, without an error of the mission. null: it does not wait for the file. */
  withdraw(path: string, agent: string): LockWaiter | null {
    const waiter = this.find(path)?.waiters.find(({ agent_id }) => agent_id === agent);
    if (waiter === undefined) return null;
    this.#timeOut(path, waiter);
    return waiter;
  }

  /** The longest waiter gets the file. */
  release(path: string, reason: LockRelease): void {
    const lock = this.requireHeld(path);
    this.#push({ op: "lock_release", lock, reason }, null, path);
    const [next, ...waiters] = lock.waiters;
    if (next === undefined) return;
    const { since: _since, deadline: _deadline, ...claim } = next;
    this.grant(path, claim, waiters);
  }

  /** Ends the locks and the waits of selected claims, the waits first. */
  releaseWhere(
    selects: (claim: LockClaim & { readonly from: string }) => boolean,
    reason: LockRelease,
  ): this {
    for (const { path, waiters } of this.#table.locks) {
      for (const waiter of waiters)
        if (selects({ ...waiter, from: waiter.since })) this.#timeOut(path, waiter);
    }
    for (const lock of this.#table.locks) {
      if (selects({ ...lock, from: lock.acquired_at })) this.release(lock.path, reason);
    }
    return this;
  }

  grant(path: string, claim: LockClaim, waiters: readonly LockWaiter[]): HeldLock {
    const fence = this.#firstSeq + this.changes.length;
    const times = { acquired_at: this.#at(0), expires_at: this.#at(claim.timeout_ms) };
    const lock = { ...claim, path, fence, ...times, waiters };
    this.#push({ op: "lock_acquire", lock }, lock);
    return lock;
  }

  #renew(held: HeldLock): HeldLock {
    const lock = { ...held, expires_at: this.#at(held.timeout_ms) };
    this.#push({ op: "lock_renew", lock }, lock);
    return lock;
  }

  /** The agent keeps its place in the queue. Without further time its wait is over, without the file. */
  #waitAgain({ path, ...held }: HeldLock, known: LockWaiter, waitMs: number): LockOutcome {
    const waiter = { ...known, deadline: this.#at(waitMs) };
    const waiters = held.waiters.map((one) => (one.lock_id === waiter.lock_id ? waiter : one));
    const lock = { ...held, path, waiters };
    if (waitMs === 0) {
      this.#timeOut(path, waiter);
      return { state: "timed_out", lock };
    }
    this.#push({ op: "lock_wait", lock, waiter }, lock);
    return { state: "waiting", lock, waiter };
  }

  #timeOut(path: string, waiter: LockWaiter): void {
    const held = this.requireHeld(path);
    const lock = { ...held, waiters: held.waiters.filter(({ lock_id }) => lock_id !== waiter.lock_id) };
    this.#push({ op: "lock_timeout", lock, waiter }, lock);
  }

  /** `lock` null: the file is free. */
  #push(action: LockAction, lock: HeldLock | null, path: string = lock?.path ?? ""): void {
    const others = this.#table.locks.filter((one) => one.path !== path);
    const locks = lock === null ? others : [...others, lock].sort((a, b) => (a.path < b.path ? -1 : 1));
    this.#table = { locks };
    this.changes.push({ ...action, after: this.#table });
  }

  #at(afterMs: number): string {
    return new Date(this.#nowMs + afterMs).toISOString();
  }
}

/** The time at which the lock was acquired or last renewed. */
export const renewedMs = ({ expires_at, timeout_ms }: HeldLock): number =>
  Date.parse(expires_at) - timeout_ms;

/** The time of the next change that no agent asks for; null: there is none. */
export function lockDueMs({ locks }: LockTable): number | null {
  const times = locks.flatMap(({ expires_at, waiters }) => [
    Date.parse(expires_at),
    ...waiters.map(({ deadline }) => Date.parse(deadline)),
  ]);
  return times.length === 0 ? null : Math.min(...times);
}

/** The agents that hold files or wait for them. */
export function lockAgents({ locks }: LockTable): ReadonlySet<string> {
  return new Set(locks.flatMap(({ agent_id, waiters }) => [agent_id, ...waiters.map((one) => one.agent_id)]));
}

/** Throws TOO_LARGE for a table that might not fit into one value of the store. */
export function requireLockRoom(table: LockTable): void {
  const bytes = Buffer.byteLength(JSON.stringify(table));
  if (bytes <= LIMITS.mission_locks_bytes_max) return;
  throw new FleetError("TOO_LARGE", "the locks of the mission are too large together", {
    fields: [
      {
        path: "path",
        expected: `at most ${LIMITS.mission_locks_bytes_max} bytes of locks as JSON`,
        got: `${bytes} bytes`,
      },
    ],
  });
}

export const timeoutText = (path: string, agent: string, holder: string): string =>
  `${agent} waited in vain for the lock on ${path}, which ${holder} holds`;

/** `LockSnapshot` of seed 002, and what a resumption needs. */
export function lockSnapshot(lock: HeldLock): LockSnapshot {
  const { lock_id, path, agent_id, acquired_at, purpose, timeout_ms, expires_at, fence, sortie_id } = lock;
  return {
    id: lock_id,
    file: path,
    held_by: agent_id,
    acquired_at,
    purpose,
    timeout_ms,
    expires_at,
    fence,
    ...(sortie_id !== null && { sortie_id }),
  };
}
