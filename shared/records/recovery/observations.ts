/**
 * The watchdogs' observations, each one transaction: an agent failed, an attempt or a probe is due, no
 * recovery point is left. A transition is made only from its own start state, so any number of watchdogs may
 * try it, and again after a crash.
 */
import { decide } from "../../lifecycle/decide.ts";
import type { FailureSighting, ObservationInput } from "../../lifecycle/input.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { AuditOp, Why } from "../../lifecycle/transition.ts";
import { type Policies, policyOf } from "../../protocol/policy.ts";
import type { FailureSignal } from "../../protocol/recovery-states.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { findInTask } from "../checkpoint/lookup.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import { decode } from "../kv/codec.ts";
import { endingName, systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { readNewestHead } from "../task/command-transaction.ts";
import { writeTransitions } from "../task/transitions.ts";
import { aliveUntil, clearLease, readLease } from "./leases.ts";

export interface RecoveryObserver {
  readonly tenant: string;
  readonly task: string;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly nowMs: number;
  readonly incarnation: number;
  readonly policies: Policies;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly traceparent?: string | undefined;
}

/**
 * The failed agent, its fence, and the sign of its failure. `agent_type` null: the type of the newest
 * checkpoint's author.
 */
export type Sighting = FailureSighting["failure"];

/** `applied: false`: nothing was written. `why` is `agent_alive` if the agent was heard; look again at `untilMs`. */
export type RecordedFailure =
  | { readonly applied: true; readonly head: TaskRecord }
  | { readonly applied: false; readonly why: Why; readonly untilMs?: number };

/** Signals that the lease in the store must confirm. */
const NEEDS_LEASE: ReadonlySet<FailureSignal> = new Set(["lease_lapsed", "step_overdue"]);

export async function recordFailure(
  tx: Tx,
  by: RecoveryObserver,
  failure: Sighting,
): Promise<RecordedFailure> {
  const { tenant, task: taskId, nowMs, policies } = by;
  const { keys, task } = await readTaskOf(tx, by);
  const lease = { tenant, task: taskId, fence: failure.fence };
  const handoff = await readOpenHandoff(tx, keys, task);
  const needsLease = task !== null && NEEDS_LEASE.has(failure.signal);
  const isLapsed = task !== null && failure.signal === "handoff_lapsed";
  const sighting: FailureSighting = {
    failure,
    aliveUntilMs: needsLease
      ? aliveUntil(
          task,
          await readLease(tx, lease),
          policyOf(policies, tenant, failure.agent_type ?? task.agent_type ?? "").recovery,
          nowMs,
        )
      : 0,
    hasWritten: isLapsed && (await hasWritten(tx, keys, task)),
  };
  const decision = decide({ task, handoff }, { type: "agent_failed", ...sighting }, circumstances(by));
  if ("refused" in decision) {
    const { refused: why, untilMs } = decision;
    // No agent will write under this fence any more.
    if (why === "superseded" || why === "ended") clearLease(tx, lease);
    return { applied: false, why, ...(untilMs !== undefined && { untilMs }) };
  }
  clearLease(tx, lease);
  await releaseLocksOf(tx, keys, by, failure.agent_id);
  return { applied: true, head: write(tx, by, keys, task, decision.transitions) };
}

/** The missions in which one agent holds files; the sweep finds the others when the locks expire. */
const MISSIONS_MAX = 100;

/** The sweep of missions releases the files of the failed agent, in all its missions. */
async function releaseLocksOf(
  tx: Tx,
  keys: TenantKeys,
  { tenant, nowMs }: RecoveryObserver,
  agent: string | null,
): Promise<void> {
  if (agent === null) return;
  const { rows } = await tx.getRange(keys.agentLocksOf(agent), { limit: MISSIONS_MAX });
  for (const { key } of rows) {
    tx.set(systemKeys.missionDue(nowMs, tenant, endingName(key), agent), new Uint8Array(0));
  }
}

const WRITES: ReadonlySet<unknown> = new Set(["create", "update", "finalize", "link"] satisfies AuditOp[]);
/** The number of entries in one read: an agent that writes nothing adds few of them under one fence. */
const SLICE = 100;

/** True if an agent or a person wrote anything under the task's current fence. The fleet itself finalizes old drafts. */
async function hasWritten(
  reader: Reader,
  keys: TenantKeys,
  { task_id: task, fence }: TaskRecord,
): Promise<boolean> {
  const { begin, end } = keys.auditRange(task);
  for (let range = { begin, end }; ; ) {
    const { rows, more } = await reader.getRange(range, { limit: SLICE, reverse: true });
    for (const { value } of rows) {
      const entry = JSON.parse(decode<string>(value)) as WrittenEntry;
      if (entry.fence < fence) return false;
      const isOfOwner = entry.actor.type !== "service" && entry.specialist === undefined;
      if (WRITES.has(entry.op) && isOfOwner) return true;
    }
    const last = rows.at(-1);
    if (!more || last === undefined) return false;
    range = { begin, end: last.key };
  }
}

interface WrittenEntry {
  readonly op: string;
  readonly fence: number;
  readonly actor: { readonly type: string };
  readonly specialist?: string;
}

export type ObservedRecovery = { readonly applied: boolean; readonly head: TaskRecord | null };

/** An attempt from the recovery point that a search has found. */
interface DueAttempt {
  readonly type: "attempt_due";
  readonly dueAt: string;
  readonly handoffId: string;
  readonly checkpointId: string;
}

/** `dueAt`: the due time as it was found; another one means that another watchdog was faster. */
export type DueObservation =
  | DueAttempt
  | Extract<ObservationInput, { type: "no_recovery_point" | "probe_due" }>;

export async function observeRecovery(
  tx: Tx,
  by: RecoveryObserver,
  observation: DueObservation,
): Promise<ObservedRecovery> {
  const { keys, task } = await readTaskOf(tx, by);
  const input = observation.type === "attempt_due" ? await readPoint(tx, keys, by, observation) : observation;
  // The recovery point was removed or found corrupt since the search, and another search finds another one.
  if (input === null) return { applied: false, head: task };
  const decision = decide({ task, handoff: null }, input, circumstances(by));
  if ("refused" in decision) return { applied: false, head: task };
  return { applied: true, head: write(tx, by, keys, task, decision.transitions) };
}

/**
 * The version that the checkpoint has at the commit: it may have been changed or finalized since the search, and the handoff and the
 * audit entry state its hash.
 */
async function readPoint(
  tx: Tx,
  keys: TenantKeys,
  { task }: RecoveryObserver,
  { type, dueAt, handoffId, checkpointId }: DueAttempt,
): Promise<Extract<ObservationInput, { type: "attempt_due" }> | null> {
  const found = await findInTask(tx, keys, task, checkpointId);
  if (!found.sound) return null;
  const { checkpoint } = found;
  return { type, dueAt, handoffId, point: { checkpoint, hash: checkpoint.compliance.hash } };
}

function circumstances({
  tenant,
  task,
  service: actor,
  nowMs,
  policies,
  random,
  traceparent,
}: RecoveryObserver) {
  return { tenant, task, actor, nowMs, policies, random, traceparent };
}

async function readTaskOf(tx: Tx, { tenant, task }: RecoveryObserver) {
  const keys = tenantKeys(tenant);
  return { keys, task: await readNewestHead(tx, keys, task) };
}

function write(
  tx: Tx,
  { tenant, task, service, nowMs, incarnation, traceparent }: RecoveryObserver,
  keys: TenantKeys,
  before: TaskRecord | null,
  transitions: Parameters<typeof writeTransitions>[4],
): TaskRecord {
  const actor = { id: service, type: "service" } as const;
  const author = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent };
  return writeTransitions(tx, keys, author, before, transitions);
}
