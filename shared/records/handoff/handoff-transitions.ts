/**
 * The moves of a handoff, as pure functions: from the task's head and the handoff to what both are afterwards, with the transitions
 * that this makes. Whoever calls one has asked the table whether it is allowed.
 */
import type { UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import type { EventData } from "../../protocol/events.ts";
import type { Handoff, HandoffEnding, HandoffWish } from "../../protocol/handoff-record.ts";
import { HANDOFF_TABLE, type HandoffEvent, type HandoffState } from "../../protocol/handoff-states.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { OFFER_TYPE, type Offer } from "../../protocol/offer.ts";
import { DEFAULT_POLICY } from "../../protocol/policy.ts";
import type { BlockReason } from "../../protocol/recovery-states.ts";
import { TASK_TABLE } from "../../protocol/task.ts";
import type { AuditOp, Transition } from "../audit/audit.ts";
import type { EventFact } from "../outbox/outbox.ts";
import { blocked } from "../recovery/blocks.ts";
import { recoveryFacts } from "../recovery/recovery-transitions.ts";
import { type Head, nextState, OF_NO_CHECKPOINT, type Step } from "../task/transitions.ts";

export interface Move {
  /** null: the handoff begins. */
  readonly before: Handoff | null;
  readonly after: Handoff;
  readonly steps: readonly Step[];
  /** What goes to the takers with it. */
  readonly offer?: Offer;
}

/** null: the handoff's state does not allow it. */
export function stateAfter(handoff: Handoff, event: HandoffEvent): HandoffState | null {
  return HANDOFF_TABLE[handoff.state][event];
}

/** Whether nothing but this handoff brings its task on after a failure, until somebody accepts it. */
export function bringsOn({ recovery, supersedes_recovery }: Handoff): boolean {
  return recovery !== null || supersedes_recovery;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** The transition in which a handoff moved; `head` is the task's as it shall be. */
function moved(
  op: AuditOp,
  head: Head,
  { before, after }: Pick<Move, "before" | "after">,
  event: EventFact,
  facts: NonNullable<Transition["facts"]> = {},
): Step {
  const { handoff_id, state } = after;
  const named = { handoff_id, handoff_from: before?.state ?? null, handoff_to: state };
  return { head, transition: { ...OF_NO_CHECKPOINT, op, facts: { ...named, ...facts } }, event };
}

export interface Request {
  readonly id: string;
  readonly checkpoint: UnsealedCheckpoint;
  readonly hash: string;
  readonly wish: HandoffWish;
  readonly traceparent: string | undefined;
  /** The attempt at recovery that this is. */
  readonly recovery?: NonNullable<Handoff["recovery"]>;
  readonly supersedesRecovery?: boolean;
  /** Absent: who has the task, else who wrote the checkpoint. */
  readonly fromAgent?: string | undefined;
}

/** Who had the task hands it off; of a task that nobody owns, who wrote the checkpoint. Throws CONFLICT when the task has ended. */
export function request(
  head: Head,
  { id, checkpoint, hash, wish, traceparent, recovery, supersedesRecovery, fromAgent }: Request,
  nowMs: number,
): Move {
  const { checkpoint_id: checkpointId, agent_id, agent_type, handoff_triggers } = checkpoint.metadata;
  const at = iso(nowMs);
  const fired = handoff_triggers?.[0];
  const after: Handoff = {
    handoff_id: id,
    tenant: head.tenant,
    task_id: head.task_id,
    state: "requested",
    from_agent: fromAgent ?? head.owner ?? agent_id,
    from_agent_type: agent_type,
    checkpoint_id: checkpointId,
    checkpoint_hash: hash,
    to_agent_type: wish.to_agent_type ?? null,
    reason: wish.reason ?? null,
    trigger: fired === undefined ? null : known(fired),
    next_phase: wish.next_phase ?? null,
    recovery: recovery ?? null,
    supersedes_recovery: supersedesRecovery ?? false,
    attempt: 0,
    max_attempts: null,
    fence_to_be: null,
    accepted_by: null,
    fence: null,
    first_checkpoint_ms: null,
    first_checkpoint_id: null,
    failure: null,
    deadline: null,
    due_at: iso(nowMs + LIMITS.handoff_overlooked_ms),
    requested_at: at,
    validated_at: null,
    offered_at: null,
    accepted_at: null,
    ended_at: null,
    ...(traceparent !== undefined && { traceparent }),
  };
  const event: EventFact = {
    type: "AGENT_HANDOFF",
    data: {
      handoffId: id,
      taskId: head.task_id,
      fromCheckpoint: checkpointId,
      fromAgent: after.from_agent,
      toAgent: after.to_agent_type,
      reason: after.reason,
    },
  };
  const next: Head = {
    ...head,
    state: nextState(head, "handoff"),
    handoff_id: id,
    // Whoever asks for it in place of a recovery wants to hear when it comes to the same.
    block: after.supersedes_recovery ? null : head.block,
    updated_at: at,
  };
  const facts = { from_checkpoint: checkpointId, to_agent_type: after.to_agent_type };
  return { before: null, after, steps: [moved("handoff", next, { before: null, after }, event, facts)] };
}

/** Further members that a checkpoint carries there stay there. */
function known({ reason, value, threshold }: NonNullable<Handoff["trigger"]>): Handoff["trigger"] {
  return { reason, ...(value !== undefined && { value }), ...(threshold !== undefined && { threshold }) };
}

export function validate(head: Head, before: Handoff, toAgentType: string, nowMs: number): Move {
  const at = iso(nowMs);
  const due = iso(nowMs + LIMITS.handoff_overlooked_ms);
  const after: Handoff = {
    ...before,
    state: "validated",
    to_agent_type: toAgentType,
    validated_at: at,
    due_at: due,
  };
  const data = { handoffId: before.handoff_id, checkpointId: before.checkpoint_id, toAgent: toAgentType };
  const next = { ...head, updated_at: at };
  const facts = { to_agent_type: toAgentType };
  const step = moved("validate", next, { before, after }, { type: "HANDOFF_VALIDATED", data }, facts);
  return { before, after, steps: [step] };
}

export interface Offering {
  /** The number of this offer: one more than were made. Of two coordinators that offer at once, one is late. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The version that the prompt was made from. */
  readonly checkpoint: Offer["data"]["checkpoint"];
  readonly prompt: string;
  readonly promptStyle: string;
  readonly promptTokens: number;
  /** How long the offer stands. */
  readonly deadlineMs: number;
  readonly firstCheckpointMs: number;
}

export function offer(head: Head, before: Handoff, toAgent: string, offering: Offering, nowMs: number): Move {
  const at = iso(nowMs);
  const deadline = iso(nowMs + offering.deadlineMs);
  const { attempt, maxAttempts, firstCheckpointMs } = offering;
  const fence = head.fence + 1;
  const after: Handoff = {
    ...before,
    state: "offered",
    attempt,
    max_attempts: maxAttempts,
    fence_to_be: fence,
    first_checkpoint_ms: firstCheckpointMs,
    deadline,
    due_at: deadline,
    offered_at: at,
  };
  const data = { handoffId: before.handoff_id, toAgent, attempt, deadline };
  const next = { ...head, updated_at: at };
  const event: EventFact = { type: "HANDOFF_OFFERED", data };
  const steps = [moved("offer", next, { before, after }, event, { attempt, deadline })];
  return { before, after, steps, offer: offerOf(after, { toAgent, fence, deadline, at }, offering) };
}

function offerOf(
  handoff: Handoff,
  { toAgent, fence, deadline, at }: { toAgent: string; fence: number; deadline: string; at: string },
  offering: Offering,
): Offer {
  const { handoff_id, tenant, task_id, from_agent, reason, trigger, next_phase, recovery, traceparent } =
    handoff;
  return {
    specversion: "1.0",
    id: `${handoff_id}/${offering.attempt}`,
    source: "fleet",
    type: OFFER_TYPE,
    subject: task_id,
    time: at,
    datacontenttype: "application/json",
    tenant,
    ...(traceparent !== undefined && { traceparent }),
    data: {
      handoff_id,
      tenant,
      task_id,
      agent_type: toAgent,
      checkpoint: offering.checkpoint,
      from_agent,
      reason,
      trigger,
      next_phase,
      recovery,
      prompt: offering.prompt,
      prompt_style: offering.promptStyle,
      prompt_tokens: offering.promptTokens,
      fence_to_be: fence,
      attempt: offering.attempt,
      max_attempts: offering.maxAttempts,
      deadline,
      first_checkpoint_ms: offering.firstCheckpointMs,
    },
  };
}

/** The one move that gives the task to somebody else, under the next fence. */
export function accept(head: Head, before: Handoff, agent: string, nowMs: number): Move {
  const at = iso(nowMs);
  const fence = head.fence + 1;
  const deadline = iso(nowMs + (before.first_checkpoint_ms ?? DEFAULT_POLICY.first_checkpoint_ms));
  const after: Handoff = {
    ...before,
    state: "accepted",
    accepted_by: agent,
    fence,
    deadline,
    due_at: deadline,
    accepted_at: at,
  };
  const event: EventFact = {
    type: "HANDOFF_ACKNOWLEDGED",
    data: {
      handoffId: before.handoff_id,
      fromCheckpoint: before.checkpoint_id,
      agentId: agent,
      fence,
      previousOwner: head.owner,
    },
  };
  const next: Head = { ...head, state: nextState(head, "accept"), owner: agent, fence, updated_at: at };
  const facts = { owner_from: head.owner, owner_to: agent };
  return { before, after, steps: [moved("acknowledge", next, { before, after }, event, facts)] };
}

function end(head: Head, state: HandoffState, at: string): [head: Head, changes: Partial<Handoff>] {
  return [
    { ...head, handoff_id: null, updated_at: at },
    { state, deadline: null, due_at: null, ended_at: at },
  ];
}

export function confirm(head: Head, before: Handoff, first: { id: string; agent: string }, at: string): Move {
  const [next, changes] = end(head, "confirmed", at);
  const after: Handoff = { ...before, ...changes, first_checkpoint_id: first.id };
  const data = { handoffId: before.handoff_id, checkpointId: first.id, agentId: first.agent };
  const event: EventFact = { type: "HANDOFF_CONFIRMED", data };
  const step = moved("confirm", next, { before, after }, event, { first_checkpoint: first.id });
  return { before, after, steps: [step] };
}

type Failed = EventData<"HANDOFF_FAILED">["state"];

function fail(
  op: AuditOp,
  head: Head,
  before: Handoff,
  state: Failed,
  failure: HandoffEnding,
  at: string,
): Move {
  const [next, changes] = end(head, state, at);
  const after: Handoff = { ...before, ...changes, failure };
  const { reason } = failure;
  const event: EventFact = { type: "HANDOFF_FAILED", data: { handoffId: before.handoff_id, state, reason } };
  return { before, after, steps: [moved(op, next, { before, after }, event, { reason })] };
}

/** Whoever had the task has it still; a task that somebody took meanwhile, or that ended, stays as that left it. */
export function cancel(head: Head, before: Handoff, failure: HandoffEnding, at: string): Move {
  const left: Head = { ...head, state: TASK_TABLE[head.state].withdraw ?? head.state };
  return fail("cancel_handoff", left, before, "cancelled", failure, at);
}

export function lapse(head: Head, before: Handoff, at: string): Move {
  const details = before.accepted_by;
  return fail("lapse", head, before, "lapsed", { reason: "no_first_checkpoint", details }, at);
}

export function reject(head: Head, before: Handoff, failure: HandoffEnding, at: string): Move {
  return blocking(fail("reject", head, before, "rejected", failure, at), failure, at);
}

export function escalate(head: Head, before: Handoff, failure: HandoffEnding, at: string): Move {
  return blocking(fail("escalate", head, before, "escalated", failure, at), failure, at);
}

/** A second transition: nobody goes on with the task before a person has looked at it, or somebody writes to it. */
function blocking(move: Move, { reason, details }: HandoffEnding, at: string): Move {
  const { handoff_id: handoffId, task_id: taskId, recovery } = move.after;
  const failed = move.steps.at(-1) as Step;
  const why = blockReasonOf(reason);
  const waits = { reason: why, details: details ?? reason };
  // People are alerted of the handoff's end.
  const head: Head = { ...failed.head, block: { ...waits, seq: null, fence: failed.head.fence } };
  const ends = recovery !== null && why !== null;
  const left = ends ? blocked(head, { ...waits, reason: why }, at) : head;
  const block: Step = {
    head: { ...left, state: nextState(left, "block") },
    transition: {
      ...OF_NO_CHECKPOINT,
      op: "block",
      facts: { reason, handoff_id: handoffId, ...(ends && recoveryFacts(head, left)) },
    },
    event: { type: "TASK_BLOCKED", data: { taskId, reason, handoffId } },
  };
  return { ...move, steps: [...move.steps.slice(0, -1), { ...failed, head }, block] };
}

/** null: of a checkpoint that broke only after it was chosen the watchdogs try an earlier one. */
function blockReasonOf(reason: HandoffEnding["reason"]): BlockReason | null {
  if (reason === "hash_broken") return null;
  return reason === "chain_broken" ? reason : "no_agent";
}
