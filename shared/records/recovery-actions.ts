/**
 * The operations of the watchdogs, each one transaction: keep the leases of agents, record failures, find
 * recovery points and attempt recoveries.
 */

import { decide } from "../lifecycle/decide.ts";
import { recoveryPhase } from "../lifecycle/routing.ts";
import type { QueryParams } from "../protocol/queries.ts";
import type { FoundPoint } from "../protocol/recovery-queries.ts";
import type { PointFailure, RecoveryState } from "../protocol/recovery-states.ts";
import type { Task } from "../protocol/task.ts";
import type { Tx } from "../store/store.ts";
import { readTask } from "./checkpoint/lookup.ts";
import type { Reread } from "./corruption/report-corrupt.ts";
import { signaturesBeside } from "./esign/beside.ts";
import type { ActionParts } from "./handoff-actions.ts";
import { type AttemptKind, readAttemptCount, readRecoveryCounts } from "./kv/counters.ts";
import { readDue } from "./kv/due-index.ts";
import { type DuePlace, type RecoveryPlace, recoveriesDue } from "./recovery/due.ts";
import {
  type AgentLease,
  clearLease,
  type LeaseKey,
  type LeasePage,
  ownerAliveUntil,
  readLeases,
  writeLeases,
} from "./recovery/leases.ts";
import { readOwner } from "./recovery/lists.ts";
import {
  type DueObservation,
  observeRecovery,
  type RecordedFailure,
  type RecoveryObserver,
  recordFailure,
  type Sighting,
} from "./recovery/observations.ts";
import { findRecoveryPoint, type PointRequest, type PointSearch } from "./recovery/recovery-point.ts";
import { readHeads } from "./task/task-list.ts";
import { redactedView } from "./task/task-view.ts";

export interface PreviewedPoint {
  readonly point: FoundPoint;
  /** The phase for which the attempt would be offered; null: it continues in that of the checkpoint. */
  readonly nextPhase: ReturnType<typeof recoveryPhase>;
}

/** The due time as it was found. */
type Due = { readonly dueAt: string };

/** The answer of a watchdog's observation; `head`: the task as clients see it. */
export type ObservedTask = { readonly applied: boolean; readonly head: Task | null };

export class RecoveryActions {
  readonly #parts: ActionParts;

  constructor(parts: ActionParts) {
    this.#parts = parts;
  }

  /**
   * Revokes the agent's ownership and decides on the recovery action; `applied: false` comes with the reason.
   */
  async noteFailure(place: RecoveryPlace, failure: Sighting, traceparent?: string): Promise<NotedFailure> {
    const recorded = await this.#transact("note_failure", place, traceparent, (tx, by) =>
      recordFailure(tx, by, failure),
    );
    return recorded.applied ? { applied: true, head: redactedView(recorded.head) } : recorded;
  }

  /** `checkpointId`: the recovery point that {@link findPoint} found. `applied: false` also if it is no longer sound. */
  attempt(
    place: RecoveryPlace,
    attempt: Due & { readonly handoffId: string; readonly checkpointId: string },
    traceparent?: string,
  ): Promise<ObservedTask> {
    return this.#observe("attempt_recovery", place, { type: "attempt_due", ...attempt }, traceparent);
  }

  /** No sound checkpoint is left to continue from. */
  block(
    place: RecoveryPlace,
    blocking: Due & { readonly reason: PointFailure; readonly details: string | null },
  ): Promise<ObservedTask> {
    return this.#observe("block_recovery", place, { type: "no_recovery_point", ...blocking });
  }

  /** One more attempt for a blocked task whose budget is spent. */
  probe(place: RecoveryPlace, due: Due): Promise<ObservedTask> {
    return this.#observe("probe_recovery", place, { type: "probe_due", ...due });
  }

  /** Heads of tasks whose recovery is due by `untilMs`, of all tenants, the longest overdue first. */
  async due(untilMs: number, limit: number, passOver?: (place: DuePlace) => boolean): Promise<Task[]> {
    const due = await this.#parts.transactions.read("due_recoveries", (reader) =>
      readDue(reader, recoveriesDue(untilMs), limit, passOver),
    );
    return due.map(redactedView);
  }

  /** Quarantines the corrupt versions that it finds. */
  async findPoint(place: RecoveryPlace, request?: PointRequest): Promise<PointSearch> {
    return (await this.#findPoint(place, request)).value;
  }

  #findPoint({ tenant, task }: RecoveryPlace, request?: PointRequest): Promise<Reread<PointSearch>> {
    const { transactions, findings } = this.#parts;
    return findings.reread(
      () =>
        transactions.read("find_recovery_point", (reader) =>
          findRecoveryPoint(reader, tenant, task, request),
        ),
      ({ passed_over: corrupt }) => ({ tenant, task, corrupt }),
    );
  }

  /**
   * A preview for operators: the recovery point that a recovery would find now, and the owner that would lose
   * the task.
   */
  async previewPoint(tenant: string, query: QueryParams<"recovery_point">): Promise<PreviewedPoint> {
    const { transactions, policies, now } = this.#parts;
    const { task_id: task, checkpoint_id: checkpointId = null, before = null, force } = query;
    const { value: search, restored } = await this.#findPoint({ tenant, task }, { checkpointId, before });
    const shown = search.found ? [search.checkpoint] : [];
    const { owner, head, beside } = await transactions.read("recovery_owner", async (reader) => ({
      owner: await readOwner(reader, { tenant, task }, policies, now()),
      head: await readTask(reader, tenant, task),
      beside: await signaturesBeside(reader, tenant, shown),
    }));
    const { passed_over } = search;
    const refused = await this.#refusalOf({ tenant, task }, search, force);
    const found = { passed_over, ...(restored.length > 0 && { restored }), owner, refused };
    if (search.found) {
      const { checkpoint } = search;
      const nextPhase = head && recoveryPhase(head, checkpoint);
      return { point: { checkpoint, reason: null, details: null, ...found, ...beside }, nextPhase };
    }
    const { reason, details } = search;
    return { point: { checkpoint: null, reason, details, ...found }, nextPhase: null };
  }

  /** The answer that the command `recover` would get now. */
  async #refusalOf(
    { tenant, task: taskId }: RecoveryPlace,
    search: PointSearch,
    force: boolean,
  ): Promise<FoundPoint["refused"]> {
    const { transactions, policies, now, service: actor, random = Math.random } = this.#parts;
    const nowMs = now();
    const decision = await transactions.read("recovery_refusal", async (reader) => {
      const task = await readTask(reader, tenant, taskId);
      const aliveUntilMs = task === null ? 0 : await ownerAliveUntil(reader, task, policies, nowMs);
      const choice = { checkpoint_id: null, to_agent_type: null, reason: null, by: null };
      const circumstances = { tenant, task: taskId, actor, nowMs, policies, random };
      const input = { type: "recover", commandId: null, choice, reset: false, force, aliveUntilMs } as const;
      return decide({ task, handoff: null }, input, circumstances);
    });
    const refusal = "refused" in decision ? decision : null;
    if (!search.found && (refusal === null || refusal.refused === "agent_alive")) {
      const code = search.reason === "chain_broken" ? "CORRUPT" : "NOT_FOUND";
      return { code, message: search.details };
    }
    if (refusal === null || refusal.error === null) return null;
    const { code, message, details } = refusal.error;
    return { code, message, details };
  }

  /** The heads in the order of `tasks`; null where there is no such task. */
  async heads(tenant: string, tasks: readonly string[]): Promise<(Task | null)[]> {
    const heads = await this.#parts.transactions.read("recovery_heads", (reader) =>
      readHeads(reader, tenant, tasks),
    );
    return heads.map((head) => head && redactedView(head));
  }

  /** The number of recoveries in each state, of all tenants. Transactions must not base decisions on it. */
  counts(): Promise<Readonly<Record<RecoveryState, number>>> {
    return this.#parts.transactions.read("recovery_counts", readRecoveryCounts);
  }

  /**
   * The number of open attempts that wait for agents of a type. Transactions must not base decisions on it.
   */
  attempts(kind: AttemptKind): Promise<number> {
    return this.#parts.transactions.read("attempt_count", (reader) => readAttemptCount(reader, kind));
  }

  /** For at most some hundreds of leases, as many as fit into one transaction. */
  async renewLeases(leases: readonly AgentLease[]): Promise<void> {
    await this.#parts.transactions.transact("renew_leases", async (tx) => writeLeases(tx, leases));
  }

  async dropLeases(leases: readonly LeaseKey[]): Promise<void> {
    await this.#parts.transactions.transact("drop_leases", async (tx) => {
      for (const lease of leases) clearLease(tx, lease);
    });
  }

  /** The leases after `last`, in the order of their keys. */
  leases(last: LeaseKey | null, limit: number): Promise<LeasePage> {
    return this.#parts.transactions.read("agent_leases", (reader) => readLeases(reader, last, limit));
  }

  async #observe(
    op: string,
    place: RecoveryPlace,
    observation: DueObservation,
    traceparent?: string,
  ): Promise<ObservedTask> {
    const { applied, head } = await this.#transact(op, place, traceparent, (tx, by) =>
      observeRecovery(tx, by, observation),
    );
    return { applied, head: head && redactedView(head) };
  }

  async #transact<T>(
    op: string,
    place: RecoveryPlace,
    traceparent: string | undefined,
    work: (tx: Tx, by: RecoveryObserver) => Promise<T>,
  ): Promise<T> {
    const { transactions, service, incarnation, now, policies, random = Math.random } = this.#parts;
    const by = { ...place, service, incarnation, policies, random, traceparent };
    return (await transactions.transact(op, (tx) => work(tx, { ...by, nowMs: now() }))).value;
  }
}

/** `applied: false`: nothing was written, for the reason `why`. */
export type NotedFailure =
  | { readonly applied: true; readonly head: Task }
  | Exclude<RecordedFailure, { readonly applied: true }>;
