/**
 * The moves of a recovery, as pure functions: from the task's head to what it is afterwards, with the transition that this makes. Whoever
 * calls one has asked the table whether it is allowed.
 */
import type { UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import type { Policy } from "../../protocol/policy.ts";
import type { Recovery, RecoveryFailure } from "../../protocol/recovery-record.ts";
import { RECOVERY_TABLE, type RecoveryEvent, type RecoveryState } from "../../protocol/recovery-states.ts";
import type { AuditOp, Transition } from "../audit/audit.ts";
import type { EventFact } from "../outbox/outbox.ts";
import { type Head, nextState, OF_NO_CHECKPOINT, type Step } from "../task/transitions.ts";
import { completedItems, type Work } from "./progress.ts";
import { type Decision, within } from "./recovery-decision.ts";

/** The budget as it is when nothing of it is spent. */
const WHOLE = {
  failures: 0,
  attempts: 0,
  rung: "latest",
  rung_attempts: 0,
  avoid_id: null,
  is_probe: false,
} as const;

const NONE: Recovery = {
  ...WHOLE,
  state: "idle",
  attempts_max: null,
  recent: [],
  completed_items: 0,
  failure: null,
  action: null,
  wish: null,
  checkpoint_id: null,
  handoff_id: null,
  due_at: null,
  attempted_at: null,
  resumed_at: null,
  blocked: null,
};

export function recoveryOf({ recovery }: Pick<Head, "recovery">): Recovery {
  return recovery ?? NONE;
}

/** null: the state of the task's recovery does not allow it. */
export function recoveryAfter(head: Pick<Head, "recovery">, event: RecoveryEvent): RecoveryState | null {
  return RECOVERY_TABLE[recoveryOf(head).state][event];
}

/**
 * Whether nobody has the task since an agent of it failed: its recovery brings it on, or a person who was told, or the handoff `open` that took
 * the place of that.
 */
export function isLeftToRecovery(
  { owner, state, recovery }: Pick<Head, "owner" | "state" | "recovery">,
  open: Pick<Handoff, "supersedes_recovery"> | null = null,
): boolean {
  if (owner !== null || recovery === null) return false;
  const isPending = RECOVERY_TABLE[recovery.state].supersede !== recovery.state;
  return isPending || state === "blocked" || open?.supersedes_recovery === true;
}

export function moved(
  op: AuditOp,
  before: Head,
  after: Head,
  event: EventFact,
  facts: NonNullable<Transition["facts"]> = {},
): Step {
  const all = { ...recoveryFacts(before, after), ...facts };
  return { head: after, transition: { ...OF_NO_CHECKPOINT, op, facts: all }, event };
}

/** Of an audit entry. */
export function recoveryFacts(before: Head, after: Head) {
  return { recovery_from: recoveryOf(before).state, recovery_to: recoveryOf(after).state };
}

const iso = (ms: number): string => new Date(ms).toISOString();

export interface Failing {
  readonly failure: RecoveryFailure;
  readonly decision: Decision;
  /** As many as the policy has for both rungs. */
  readonly attemptsMax: number;
}

/** Whoever had the task has it no more, and its fence is raised; what follows is decided already, and a block a transition of its own. */
export function fail(head: Head, { failure, decision, attemptsMax }: Failing, nowMs: number): Step {
  const before = recoveryOf(head);
  const at = iso(nowMs);
  const noted: Recovery = {
    ...before,
    state: "waiting",
    failures: before.failures + 1,
    attempts_max: attemptsMax,
    failure,
    wish: null,
    handoff_id: null,
    blocked: null,
    ...(decision.do === "block" ? { action: "block", due_at: null } : attemptNext(before, head, decision)),
  };
  const after: Head = {
    ...head,
    // What was blocked for what was to go on from goes on from elsewhere; or it is blocked again at once.
    state: head.state === "blocked" ? nextState(head, "unblock") : head.state,
    owner: null,
    fence: head.fence + 1,
    recovery: noted,
    updated_at: at,
  };
  const { agent_id: agentId, class: failureClass, signal, fence } = failure;
  const data = { taskId: head.task_id, agentId, class: failureClass, signal, fence, dueAt: noted.due_at };
  const facts = { owner_from: head.owner, owner_to: null, class: failureClass, signal, action: noted.action };
  return moved("fail", head, after, { type: "AGENT_FAILED", data }, facts);
}

function attemptNext(
  before: Recovery,
  head: Head,
  { action, rung, dueMs, toAgentType }: Decision & { do: "attempt" },
): Partial<Recovery> {
  const isNewRung = rung !== before.rung;
  return {
    action,
    rung,
    rung_attempts: isNewRung ? 0 : before.rung_attempts,
    ...(rung === "previous" && { avoid_id: before.avoid_id ?? head.latest_id }),
    due_at: iso(dueMs),
    ...(toAgentType !== null && {
      wish: { checkpoint_id: null, to_agent_type: toAgentType, reason: null, by: null },
    }),
  };
}

export interface RecoveryPoint {
  readonly checkpoint: UnsealedCheckpoint;
  readonly hash: string;
}

/** Recorded before it is made: with the request of the handoff that makes it, in one transaction. */
export function attempt(
  head: Head,
  { checkpoint }: RecoveryPoint,
  handoffId: string,
  { window_ms: windowMs }: Policy["recovery"],
  nowMs: number,
): Step {
  const before = recoveryOf(head);
  const at = iso(nowMs);
  const { checkpoint_id: id } = checkpoint.metadata;
  const recovery: Recovery = {
    ...before,
    ...oneMore(before, windowMs, nowMs),
    state: "attempted",
    avoid_id: before.avoid_id ?? id,
    completed_items: Math.max(before.completed_items, completedItems(checkpoint)),
    checkpoint_id: id,
    handoff_id: handoffId,
    due_at: null,
  };
  const reason = reasonOf(recovery);
  const event: EventFact = {
    type: "RECOVERY_INITIATED",
    data: { checkpointId: id, reason, taskId: head.task_id, handoffId, attempt: recovery.attempts },
  };
  const facts = {
    attempt: recovery.attempts,
    rung: recovery.rung,
    from_checkpoint: id,
    handoff_id: handoffId,
  };
  return moved("recover", head, { ...head, recovery, updated_at: at }, event, facts);
}

/** What an attempt takes out of the budget. */
function oneMore(
  { attempts, rung_attempts, recent }: Recovery,
  windowMs: number,
  nowMs: number,
): Partial<Recovery> {
  const at = iso(nowMs);
  return {
    attempts: attempts + 1,
    rung_attempts: rung_attempts + 1,
    recent: [...within(recent, windowMs, nowMs), at],
    attempted_at: at,
    resumed_at: null,
  };
}

/** Why the task is handed over, for the next agent and for people. */
export function reasonOf({ failure, attempts, wish }: Recovery): string {
  const asked = wish?.reason ?? null;
  if (failure === null || failure.signal === "request") return asked ?? "asked for";
  const { class: failureClass, details, agent_id: agent } = failure;
  const failed = `attempt ${attempts} after ${agent ?? "the agent before"} failed: ${failureClass}`;
  return [failed, details, asked].filter((part) => part !== null).join(", ");
}

/** The next agent's first checkpoint. */
export function resume(head: Head, first: { id: string; agent: string }, at: string): Step {
  const before = recoveryOf(head);
  const recovery: Recovery = { ...before, state: "resumed", due_at: null, resumed_at: at };
  const event: EventFact = {
    type: "RECOVERY_COMPLETED",
    data: {
      checkpointId: before.checkpoint_id ?? first.id,
      newAgentId: first.agent,
      taskId: head.task_id,
      firstCheckpointId: first.id,
      attempt: before.attempts,
    },
  };
  const facts = { attempt: before.attempts, first_checkpoint: first.id };
  return moved("resume", head, { ...head, recovery, updated_at: at }, event, facts);
}

/**
 * What a checkpoint that is written does to the budget: more got done than ever before, and it is whole again; else nothing. What was
 * attempted lately still counts against the window. While an attempt is due or open nobody is at the task whose budget it would be.
 */
export function progress(head: Head, checkpoint: Work, at: string): Step[] {
  const before = head.recovery;
  if (before === null || !isSpent(before)) return [];
  if (before.state !== "resumed" && before.state !== "idle") return [];
  const items = completedItems(checkpoint);
  if (items <= before.completed_items) return [];
  const recovery: Recovery = { ...before, ...WHOLE, state: "idle", completed_items: items };
  return [settled(withoutBlock(head), recovery, "progress", at)];
}

/** Something new got done: what blocks the task next is something new. */
function withoutBlock<H extends Pick<Head, "state" | "block">>(head: H): H {
  return head.state === "blocked" ? head : { ...head, block: null };
}

function isSpent({ state, failures, attempts }: Recovery): boolean {
  return state === "resumed" || failures > 0 || attempts > 0;
}

/** While the budget is whole, what gets done raises what the next agent has to get done to get it back. */
export function raised<H extends Pick<Head, "state" | "block" | "recovery">>(head: H, checkpoint: Work): H {
  const before = head.recovery;
  if (before === null || before.state !== "idle" || isSpent(before)) return head;
  const items = completedItems(checkpoint);
  if (items <= before.completed_items) return head;
  return { ...withoutBlock(head), recovery: { ...before, completed_items: items } };
}

/** The task went another way; the budget stays as it is. Nothing when that changes nothing. */
export function supersede(head: Head, event: "supersede" | "end", at: string): Step[] {
  const before = recoveryOf(head);
  const state = RECOVERY_TABLE[before.state][event];
  if (state === null || state === before.state) return [];
  const recovery: Recovery = { ...before, state, due_at: null, wish: null, blocked: null };
  return [settled(head, recovery, "superseded", at)];
}

/**
 * The task is taken by name. When an agent takes it that waits to be recovered, started by somebody, this is the attempt that was due, and
 * counts: or one that crashes as often as it is started would never spend the budget. An agent is who promises to be heard, by whatever name
 * it was started this time, and who has the name of the one that failed; a person's take counts nothing.
 */
export function takenBy(
  head: Head,
  { agent, promises }: { readonly agent: string; readonly promises: boolean },
  { window_ms: windowMs }: Policy["recovery"],
  nowMs: number,
): Step[] {
  const before = recoveryOf(head);
  const at = iso(nowMs);
  const { failure } = before;
  const isAttempt =
    failure !== null && failure.signal !== "request" && (promises || failure.agent_id === agent);
  if (before.state !== "waiting" || !isAttempt) return supersede(head, "supersede", at);
  const recovery: Recovery = {
    ...before,
    ...oneMore(before, windowMs, nowMs),
    state: "idle",
    due_at: null,
    wish: null,
    // It chooses by itself from where it goes on.
    checkpoint_id: null,
  };
  return [settled(head, recovery, "superseded", at, { attempt: recovery.attempts, rung: recovery.rung })];
}

function settled(
  head: Head,
  recovery: Recovery,
  reason: "progress" | "superseded",
  at: string,
  facts: NonNullable<Transition["facts"]> = {},
): Step {
  const event: EventFact = { type: "RECOVERY_SETTLED", data: { taskId: head.task_id, reason } };
  return moved("settle", head, { ...head, recovery, updated_at: at }, event, { reason, ...facts });
}

export interface Retrying {
  /** null: nobody chose. */
  readonly wish: Recovery["wish"];
  /** Whether the budget is whole again. */
  readonly reset: boolean;
  /** After this one attempt it is blocked again. */
  readonly isProbe: boolean;
  /** Who is deposed by it, if anybody. */
  readonly failure: RecoveryFailure | null;
}

/** Another attempt is wanted, now. */
export function retry(head: Head, { wish, reset, isProbe, failure }: Retrying, nowMs: number): Step {
  const before = recoveryOf(head);
  const at = iso(nowMs);
  const recovery: Recovery = {
    ...before,
    ...(reset && { ...WHOLE, recent: [] }),
    state: "waiting",
    wish,
    is_probe: isProbe,
    action: "retry",
    failure: failure ?? before.failure,
    handoff_id: null,
    blocked: null,
    due_at: at,
  };
  const after: Head = {
    ...head,
    state: head.state === "blocked" ? nextState(head, "unblock") : head.state,
    owner: null,
    fence: head.fence + 1,
    recovery,
    // Whoever asks believes that the cause is gone, and wants to hear when it is not.
    block: isProbe ? head.block : null,
    updated_at: at,
  };
  const event: EventFact = {
    type: "RECOVERY_REQUESTED",
    data: {
      taskId: head.task_id,
      previousOwner: head.owner,
      fence: after.fence,
      reason: wish?.reason ?? null,
    },
  };
  const facts = { owner_from: head.owner, owner_to: null, reset: reset ? "yes" : "no" };
  return moved("retry", head, after, event, facts);
}
