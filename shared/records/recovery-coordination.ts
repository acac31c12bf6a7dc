/**
 * What watchdogs do, each one transaction: they keep the leases of agents, note failures, look for recovery points and attempt recoveries.
 * A move is made only from where it begins, and its answer says whether it was, so that any number of watchdogs may make it.
 */

import type { Policies } from "../protocol/policy.ts";
import type { FoundPoint, QueryParams } from "../protocol/queries.ts";
import type { RecoveryState } from "../protocol/recovery-states.ts";
import type { Task } from "../protocol/task.ts";
import type { Tx } from "../store/store.ts";
import type { Findings } from "./checkpoint/report-corrupt.ts";
import { type AttemptKind, readAttemptCount, readRecoveryCounts } from "./kv/counters.ts";
import { readDue } from "./kv/due-index.ts";
import type { Transactions } from "./kv/transactions.ts";
import type { Blocking } from "./recovery/blocks.ts";
import {
  type Attempt,
  attemptRecovery,
  blockRecovery,
  type Made,
  type Noted,
  noteFailure,
  probeRecovery,
  type Sighting,
  type Watchdog,
} from "./recovery/coordination.ts";
import { type DuePlace, type RecoveryPlace, recoveriesDue } from "./recovery/due.ts";
import {
  type AgentLease,
  clearLease,
  type LeaseKey,
  type LeasePage,
  readLeases,
  writeLeases,
} from "./recovery/leases.ts";
import { readOwner } from "./recovery/lists.ts";
import { findRecoveryPoint, type PointSearch, type PointWish } from "./recovery/recovery-point.ts";
import { readHeads } from "./task/task-list.ts";

export interface RecoveryParts {
  readonly transactions: Transactions;
  readonly findings: Findings;
  readonly incarnation: number;
  readonly now: () => number;
  /** For the audit trail. */
  readonly service: string;
  readonly policies: Policies;
  /** Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

export class RecoveryCoordination {
  readonly #parts: RecoveryParts;

  constructor(parts: RecoveryParts) {
    this.#parts = parts;
  }

  /** Deposes the agent and decides what follows; `applied: false` says why not. */
  noteFailure(place: RecoveryPlace, sighting: Sighting, traceparent?: string): Promise<Noted> {
    return this.#move("note_failure", place, traceparent, (tx, by) => noteFailure(tx, by, sighting));
  }

  attempt(place: RecoveryPlace, attempt: Attempt, traceparent?: string): Promise<Made> {
    return this.#move("attempt_recovery", place, traceparent, (tx, by) => attemptRecovery(tx, by, attempt));
  }

  block(place: RecoveryPlace, blocking: Blocking & { readonly dueAt: string }): Promise<Made> {
    return this.#move("block_recovery", place, undefined, (tx, by) => blockRecovery(tx, by, blocking));
  }

  /** Half-opens the breaker of a task whose time has come. */
  probe(place: RecoveryPlace, due: { readonly dueAt: string }): Promise<Made> {
    return this.#move("probe_recovery", place, undefined, (tx, by) => probeRecovery(tx, by, due));
  }

  /** Heads of tasks whose recovery is due by `untilMs`, of all tenants, the longest overdue first. */
  due(untilMs: number, limit: number, passOver?: (place: DuePlace) => boolean): Promise<Task[]> {
    return this.#parts.transactions.read("due_recoveries", (reader) =>
      readDue(reader, recoveriesDue(untilMs), limit, passOver),
    );
  }

  /** What does not verify on the way is quarantined. */
  async findPoint({ tenant, task }: RecoveryPlace, wish?: PointWish): Promise<PointSearch> {
    const { transactions, findings } = this.#parts;
    const search = await transactions.read("find_recovery_point", (reader) =>
      findRecoveryPoint(reader, tenant, task, wish),
    );
    await findings.keep(tenant, task, search.passed_over);
    return search;
  }

  /** For people: what a recovery would find now, and who would lose the task. */
  async lookForPoint(tenant: string, query: QueryParams<"recovery_point">): Promise<FoundPoint> {
    const { transactions, policies, now } = this.#parts;
    const { task_id: task, checkpoint_id: checkpointId = null, before = null } = query;
    const search = await this.findPoint({ tenant, task }, { checkpointId, before });
    const owner = await transactions.read("recovery_owner", (reader) =>
      readOwner(reader, { tenant, task }, policies, now()),
    );
    const { passed_over } = search;
    if (search.found) {
      return { checkpoint: search.checkpoint, reason: null, details: null, passed_over, owner };
    }
    const { reason, details } = search;
    return { checkpoint: null, reason, details, passed_over, owner };
  }

  /** In the order asked for; null where there is no such task. */
  heads(tenant: string, tasks: readonly string[]): Promise<(Task | null)[]> {
    return this.#parts.transactions.read("recovery_heads", (reader) => readHeads(reader, tenant, tasks));
  }

  /** How many recoveries are in each state, of all tenants; not to be decided by in a transaction. */
  counts(): Promise<Readonly<Record<RecoveryState, number>>> {
    return this.#parts.transactions.read("recovery_counts", readRecoveryCounts);
  }

  /** How many attempts are open that wait for agents of a type; not to be decided by in a transaction. */
  attempts(kind: AttemptKind): Promise<number> {
    return this.#parts.transactions.read("attempt_count", (reader) => readAttemptCount(reader, kind));
  }

  /** As many as fit into a transaction: some hundreds. */
  async renewLeases(leases: readonly AgentLease[]): Promise<void> {
    await this.#parts.transactions.transact("renew_leases", async (tx) => writeLeases(tx, leases));
  }

  async dropLeases(leases: readonly LeaseKey[]): Promise<void> {
    await this.#parts.transactions.transact("drop_leases", async (tx) => {
      for (const lease of leases) clearLease(tx, lease);
    });
  }

  /** Behind `last`, in the order of their keys. */
  leases(last: LeaseKey | null, limit: number): Promise<LeasePage> {
    return this.#parts.transactions.read("agent_leases", (reader) => readLeases(reader, last, limit));
  }

  async #move<T>(
    op: string,
    place: RecoveryPlace,
    traceparent: string | undefined,
    move: (tx: Tx, by: Watchdog) => Promise<T>,
  ): Promise<T> {
    const { transactions, service, incarnation, now, policies, random } = this.#parts;
    const by = {
      ...place,
      service,
      incarnation,
      policies,
      random: random ?? Math.random,
      traceparent,
    };
    return (await transactions.transact(op, (tx) => move(tx, { ...by, nowMs: now() }))).value;
  }
}
