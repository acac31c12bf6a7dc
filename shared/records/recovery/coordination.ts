/**
 * What the watchdogs do to recoveries: note a failure, attempt, block, try again after a while. They are nobody's commands: each reads the
 * head of the task and moves it only from where it should be, so any number of watchdogs may try the same at once, and again after a crash.
 * All but one find it moved.
 */
import { type Handoff, nextPhaseOf } from "../../protocol/handoff-record.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Policies, policyOf } from "../../protocol/policy.ts";
import type { Recovery, RecoveryFailure } from "../../protocol/recovery-record.ts";
import type { FailureSignal } from "../../protocol/recovery-states.ts";
import { TASK_TABLE, type Task } from "../../protocol/task.ts";
import type { Reader, Tx } from "../../store/store.ts";
import type { AuditOp } from "../audit/audit.ts";
import { cancel, request, stateAfter } from "../handoff/handoff-transitions.ts";
import { readOpen, write } from "../handoff/record.ts";
import { decode } from "../kv/codec.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { readNewestHead } from "../task/command-transaction.ts";
import { advance, type Head, type Step } from "../task/transitions.ts";
import { type Blocking, block, blockLeft, isTakenBlocked } from "./blocks.ts";
import { aliveUntil, clearLease, readLease } from "./leases.ts";
import { analyse, blockAgain, type Decision } from "./recovery-decision.ts";
import {
  attempt,
  fail,
  type RecoveryPoint,
  reasonOf,
  recoveryAfter,
  recoveryOf,
  retry,
} from "./recovery-transitions.ts";

export interface Watchdog {
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
 * What was seen: who failed, under which fence it had the task, and how that was found out. `agent_type` null: as the newest checkpoint says.
 */
export type Sighting = Pick<
  RecoveryFailure,
  "class" | "signal" | "agent_id" | "agent_type" | "fence" | "details" | "resets_at" | "last_sign_at"
>;

/** Why nothing was done about a failure. `written`: the handoff lapsed, but its agent has written since. `alive`: there was a sign of life; look again at `untilMs`. */
export type NotNoted =
  | { readonly why: "unknown" | "superseded" | "over" | "blocked" | "handing_off" | "written" }
  | { readonly why: "alive"; readonly untilMs: number };

export type Noted =
  | { readonly applied: true; readonly head: Head }
  | ({ readonly applied: false } & NotNoted);

/** These need the lease in the store to agree: nobody has said that it is over. */
const NEEDS_LEASE: ReadonlySet<FailureSignal> = new Set(["lease_lapsed", "step_overdue"]);

export async function noteFailure(tx: Tx, by: Watchdog, sighting: Sighting): Promise<Noted> {
  const { tenant, task, nowMs, policies, random } = by;
  const { keys, head } = await headOf(tx, by);
  const lease = { tenant, task, fence: sighting.fence };
  const refuse = (not: NotNoted): Noted => {
    // Nobody will write under this fence any more.
    if (not.why === "superseded" || not.why === "over") clearLease(tx, lease);
    return { applied: false, ...not };
  };
  if (head === null) return refuse({ why: "unknown" });
  const open = await readOpen(tx, keys, head);
  const not = hindrance(head, open, sighting);
  if (not !== null) return refuse({ why: not });
  if (sighting.signal === "handoff_lapsed" && (await hasWritten(tx, keys, head))) {
    return refuse({ why: "written" });
  }
  const agentType = sighting.agent_type ?? head.agent_type;
  const policy = policyOf(policies, tenant, agentType ?? "").recovery;
  if (NEEDS_LEASE.has(sighting.signal)) {
    const untilMs = aliveUntil(head, await readLease(tx, lease), policy, nowMs);
    if (untilMs > nowMs) return refuse({ why: "alive", untilMs });
  }
  clearLease(tx, lease);
  const failure: RecoveryFailure = {
    ...sighting,
    agent_type: agentType,
    noted_at: new Date(nowMs).toISOString(),
    ...(by.traceparent !== undefined && { traceparent: by.traceparent }),
  };
  const withdrawn = withdrawal(tx, keys, head, open, failure);
  const left = withdrawn.at(-1)?.head ?? head;
  const attemptsMax = policy.attempts + policy.previous_attempts;
  const waits = blockLeft(head);
  const decision: Decision =
    waits === null
      ? analyse(recoveryOf(left), failure, policy, { nowMs, random })
      : blockAgain(waits.reason, recoveryOf(left), policy, nowMs);
  const failed = fail(left, { failure, decision, attemptsMax }, nowMs);
  const steps = [...withdrawn, failed];
  if (decision.do === "block") {
    const { reason, dueMs } = decision;
    const { details } = waits ?? failure;
    steps.push(block(failed.head, { reason, details }, failure.noted_at, dueMs));
  }
  return { applied: true, head: make(tx, by, keys, head, steps) };
}

/** null: nothing is in the way. */
function hindrance(
  head: Task,
  open: Handoff | null,
  { signal, agent_id: agent, fence }: Sighting,
): "superseded" | "over" | "blocked" | "handing_off" | null {
  if (TASK_TABLE[head.state].handoff === null) return "over";
  if (head.fence !== fence) return "superseded";
  const isOwners = head.owner !== null && head.owner === agent;
  // Whoever took the task over may have released it unwritten: nobody else took it, or its fence were another.
  const isLeft = signal === "handoff_lapsed" && head.owner === null && open === null;
  // The one failure of a blocked task that changes what it waits for.
  // Whoever has taken it since then goes on from where it wants.
  const isRejected =
    signal === "handoff_rejected" && head.state === "blocked" && open === null && !isTakenBlocked(head);
  if (!isOwners && !isLeft && !isRejected) return "superseded";
  // Who had it when it was blocked has done its part.
  const changes = isRejected ? !head.block?.reason : isOwners && isTakenBlocked(head);
  if ((head.state === "blocked" && !changes) || recoveryAfter(head, "fail") === null) return "blocked";
  // Whoever hands its task over has done its part; only who has accepted it is at it.
  return open === null || open.state === "accepted" ? null : "handing_off";
}

const WRITES: ReadonlySet<unknown> = new Set(["create", "update", "finalize", "link"] satisfies AuditOp[]);
/** Entries that are looked through: under one fence an agent that writes nothing makes few. */
const ENTRIES_MAX = 100;

/** Whether anything was written under the task's current fence. */
async function hasWritten(
  reader: Reader,
  keys: TenantKeys,
  { task_id: task, fence }: Task,
): Promise<boolean> {
  const { rows } = await reader.getRange(keys.auditRange(task), { limit: ENTRIES_MAX, reverse: true });
  for (const { value } of rows) {
    const entry = JSON.parse(decode<string>(value)) as { op: string; fence: number };
    if (entry.fence < fence) return false;
    if (WRITES.has(entry.op)) return true;
  }
  return rows.length === ENTRIES_MAX;
}

/** A handoff that the failed agent had accepted has come to nothing. */
function withdrawal(
  tx: Tx,
  keys: TenantKeys,
  head: Task,
  open: Handoff | null,
  { class: details, noted_at: at }: RecoveryFailure,
): readonly Step[] {
  if (open === null || stateAfter(open, "supersede") === null) return [];
  return write(tx, keys, cancel(head, open, { reason: "agent_failed", details }, at));
}

export interface Attempt {
  /** When its attempt was due, as it was found; another due time means that somebody else was here. */
  readonly dueAt: string;
  /** A new id. */
  readonly handoffId: string;
  readonly point: RecoveryPoint;
}

export type Made = { readonly applied: boolean; readonly head: Head | null };

/** The attempt is on record when it is made, and it is made by the coordinators: as a handoff from the recovery point. */
export async function attemptRecovery(
  tx: Tx,
  by: Watchdog,
  { dueAt, handoffId, point }: Attempt,
): Promise<Made> {
  const { tenant, nowMs, policies, traceparent } = by;
  const { keys, head } = await headOf(tx, by);
  const recovery = head?.recovery ?? null;
  if (head === null || recovery === null || !isDue(head, recovery, dueAt, by))
    return { applied: false, head };
  const { metadata, execution_state } = point.checkpoint;
  const policy = policyOf(policies, tenant, metadata.agent_type).recovery;
  const nextPhase = nextPhaseOf(execution_state);
  const made = attempt(head, point, handoffId, policy, nowMs);
  const [attempted, failure] = [made.head.recovery as Recovery, recovery.failure];
  const asked = {
    id: handoffId,
    ...point,
    wish: {
      reason: reasonOf(attempted).slice(0, LIMITS.handoff_reason_chars_max).toWellFormed(),
      ...(recovery.wish?.to_agent_type && { to_agent_type: recovery.wish.to_agent_type }),
      ...(nextPhase !== null && { next_phase: nextPhase }),
    },
    recovery: {
      attempt: attempted.attempts,
      class: failure?.signal === "request" ? null : (failure?.class ?? null),
    },
    fromAgent: failure?.agent_id ?? undefined,
    traceparent,
  } as const;
  const requested = request(made.head, asked, nowMs);
  return { applied: true, head: make(tx, by, keys, head, [made, ...write(tx, keys, requested)]) };
}

function isDue(head: Task, recovery: Recovery, dueAt: string, { nowMs }: Watchdog): boolean {
  const isNow = recovery.due_at === dueAt && Date.parse(dueAt) <= nowMs;
  return (
    isNow &&
    recoveryAfter(head, "attempt") !== null &&
    head.handoff_id === null &&
    TASK_TABLE[head.state].handoff !== null
  );
}

/** No sound checkpoint is left to go on from. */
export async function blockRecovery(
  tx: Tx,
  by: Watchdog,
  { dueAt, ...blocking }: Blocking & { readonly dueAt: string },
): Promise<Made> {
  const { keys, head } = await headOf(tx, by);
  const recovery = head?.recovery ?? null;
  if (head === null || recovery === null || !isDue(head, recovery, dueAt, by))
    return { applied: false, head };
  const at = new Date(by.nowMs).toISOString();
  return { applied: true, head: make(tx, by, keys, head, [block(head, blocking, at)]) };
}

/** The breaker half-opens: one more attempt for a task whose attempts are spent, when the policy wants it. */
export async function probeRecovery(
  tx: Tx,
  by: Watchdog,
  { dueAt }: { readonly dueAt: string },
): Promise<Made> {
  const { keys, head } = await headOf(tx, by);
  const recovery = head?.recovery ?? null;
  const isBlocked =
    recovery?.state === "blocked" && recovery.due_at === dueAt && Date.parse(dueAt) <= by.nowMs;
  if (head === null || !isBlocked || head.state !== "blocked") return { applied: false, head };
  const probe = { wish: recovery.wish, reset: false, isProbe: true, failure: null };
  return { applied: true, head: make(tx, by, keys, head, [retry(head, probe, by.nowMs)]) };
}

async function headOf(tx: Tx, { tenant, task }: Watchdog): Promise<{ keys: TenantKeys; head: Task | null }> {
  const keys = tenantKeys(tenant);
  return { keys, head: await readNewestHead(tx, keys, task) };
}

function make(tx: Tx, by: Watchdog, keys: TenantKeys, before: Task, steps: readonly Step[]): Head {
  const { tenant, task, service, nowMs, incarnation, traceparent } = by;
  const actor = { id: service, type: "service" } as const;
  advance(tx, keys, { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent }, before, steps);
  return (steps.at(-1) as Step).head;
}
