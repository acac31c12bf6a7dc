/**
 * The transitions of a handoff. `HANDOFF_TABLE` says which of them its state allows; the callers in `decide.ts` ask it first.
 */
import { offerDigest } from "../integrity/offer-digest.ts";
import type { UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import type { EventData } from "../protocol/events.ts";
import type { Handoff, HandoffEnding, HandoffOptions } from "../protocol/handoff-record.ts";
import { HANDOFF_TABLE, type HandoffEvent, type HandoffState } from "../protocol/handoff-states.ts";
import { LIMITS } from "../protocol/limits.ts";
import { OFFER_TYPE, type Offer } from "../protocol/offer.ts";
import { DEFAULT_POLICY } from "../protocol/policy.ts";
import type { BlockReason } from "../protocol/recovery-states.ts";
import { redactedReason } from "../protocol/redaction.ts";
import { block } from "./block.ts";
import type { Decision } from "./decision.ts";
import { nextAgentType } from "./routing.ts";
import type { AuditFacts, AuditOp } from "./transition.ts";

/** null: the handoff's state does not allow it. */
export function handoffStateAfter(handoff: Pick<Handoff, "state">, event: HandoffEvent): HandoffState | null {
  return HANDOFF_TABLE[handoff.state][event];
}

/** True if only this handoff can continue the task after a failure, until an agent accepts it. */
export function replacesRecovery({ recovery, supersedes_recovery }: Handoff): boolean {
  return recovery !== null || supersedes_recovery;
}

const iso = (ms: number): string => new Date(ms).toISOString();

export interface HandoffRequest {
  readonly id: string;
  readonly checkpoint: UnsealedCheckpoint;
  readonly hash: string;
  readonly options: HandoffOptions;
  /** The attempt at recovery that this handoff makes. */
  readonly recovery?: NonNullable<Handoff["recovery"]>;
  readonly supersedesRecovery?: boolean;
  /** Default: the task's owner, else the author of the checkpoint. */
  readonly fromAgent?: string | undefined;
  /** Default: the weightiest trigger that the checkpoint fired. */
  readonly trigger?: Handoff["trigger"];
}

export function request(
  decision: Decision,
  { id, checkpoint, hash, options, recovery, supersedesRecovery = false, fromAgent, trigger }: HandoffRequest,
): void {
  const { task, at } = decision;
  const { nowMs, policies, traceparent } = decision.circumstances;
  const { checkpoint_id: checkpointId, agent_id, agent_type, handoff_triggers } = checkpoint.metadata;
  const fired = trigger ?? handoff_triggers?.[0];
  const nextPhase = options.next_phase ?? null;
  const route = { tenant: task.tenant, from: agent_type, nextPhase, to: options.to_agent_type };
  const toAgentType = nextAgentType(route, policies);
  const after: Handoff = {
    handoff_id: id,
    tenant: task.tenant,
    task_id: task.task_id,
    state: "requested",
    from_agent: fromAgent ?? task.owner ?? agent_id,
    from_agent_type: agent_type,
    checkpoint_id: checkpointId,
    checkpoint_hash: hash,
    to_agent_type: toAgentType,
    reason: options.reason ?? null,
    trigger: fired === undefined ? null : triggerOf(fired),
    next_phase: nextPhase,
    recovery: recovery ?? null,
    supersedes_recovery: supersedesRecovery,
    attempt: 0,
    max_attempts: null,
    fence_to_be: null,
    offer_digest: null,
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
  const { task_id: taskId } = task;
  const { from_agent: fromAgentId, reason } = after;
  move(decision, "handoff", null, after, {
    facts: {
      from_checkpoint: checkpointId,
      from_hash: hash,
      to_agent_type: toAgentType,
      ...(supersedesRecovery && { supersedes_recovery: "yes" }),
    },
    event: {
      type: "AGENT_HANDOFF",
      data: {
        handoffId: id,
        taskId,
        fromCheckpoint: checkpointId,
        fromAgent: fromAgentId,
        toAgent: toAgentType,
        reason,
      },
    },
  });
}

/** Further members that a checkpoint's trigger carries stay in the checkpoint. */
function triggerOf(fired: NonNullable<Handoff["trigger"]>): Handoff["trigger"] {
  const { reason, value, expected, threshold } = fired;
  return {
    reason,
    ...(value !== undefined && { value }),
    ...(expected !== undefined && { expected }),
    ...(threshold !== undefined && { threshold }),
  };
}

/** Records the agent type that the handoff goes to. */
export function validateHandoff(decision: Decision, toAgentType: string): void {
  const before = decision.handoff as Handoff;
  const after: Handoff = {
    ...before,
    state: "validated",
    to_agent_type: toAgentType,
    validated_at: decision.at,
    due_at: iso(decision.circumstances.nowMs + LIMITS.handoff_overlooked_ms),
  };
  const { handoff_id: handoffId, checkpoint_id: checkpointId } = before;
  move(decision, "validate", before, after, {
    facts: { to_agent_type: toAgentType },
    event: { type: "HANDOFF_VALIDATED", data: { handoffId, checkpointId, toAgent: toAgentType } },
  });
}

export interface Offering {
  /** The number of this offer. Of two coordinators that offer at the same time, one is refused by it. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The version that the prompt was made from. */
  readonly checkpoint: Offer["data"]["checkpoint"];
  readonly prompt: string;
  readonly promptStyle: string;
  readonly promptTokens: number;
  /** Random: the digest stays in the trail, and the prompt must not be guessed from it when the content is gone. */
  readonly salt: string;
  /** How long the offer can be accepted. */
  readonly deadlineMs: number;
  readonly firstCheckpointMs: number;
}

export function offer(decision: Decision, toAgent: string, offering: Offering): void {
  const before = decision.handoff as Handoff;
  const { attempt, maxAttempts, firstCheckpointMs, deadlineMs } = offering;
  const deadline = iso(decision.circumstances.nowMs + deadlineMs);
  const fence = decision.task.fence + 1;
  const offered: Handoff = {
    ...before,
    state: "offered",
    attempt,
    max_attempts: maxAttempts,
    fence_to_be: fence,
    first_checkpoint_ms: firstCheckpointMs,
    deadline,
    due_at: deadline,
    offered_at: decision.at,
  };
  const message = offerOf(offered, toAgent, offering);
  const { digest } = message.data;
  const data = { handoffId: before.handoff_id, toAgent, attempt, deadline };
  move(
    decision,
    "offer",
    before,
    { ...offered, offer_digest: digest },
    {
      facts: { attempt, deadline, offer_digest: digest },
      event: { type: "HANDOFF_OFFERED", data },
      offer: message,
    },
  );
}

function offerOf(handoff: Handoff, toAgent: string, offering: Offering): Offer {
  const { handoff_id, tenant, task_id, from_agent, reason, trigger, next_phase, recovery, traceparent } =
    handoff;
  const data: Omit<Offer["data"], "digest"> = {
    handoff_id,
    tenant,
    task_id,
    agent_type: toAgent,
    checkpoint: offering.checkpoint,
    from_agent,
    // An agent or operator may have written a secret into it.
    reason: reason && redactedReason(reason),
    trigger,
    next_phase,
    recovery,
    prompt: offering.prompt,
    prompt_style: offering.promptStyle,
    prompt_tokens: offering.promptTokens,
    salt: offering.salt,
    fence_to_be: handoff.fence_to_be as number,
    attempt: offering.attempt,
    max_attempts: offering.maxAttempts,
    deadline: handoff.deadline as string,
    first_checkpoint_ms: offering.firstCheckpointMs,
  };
  return {
    specversion: "1.0",
    id: `${handoff_id}/${offering.attempt}`,
    source: "fleet",
    type: OFFER_TYPE,
    subject: task_id,
    time: handoff.offered_at as string,
    datacontenttype: "application/json",
    tenant,
    ...(traceparent !== undefined && { traceparent }),
    data: { ...data, digest: offerDigest(data) } as Offer["data"],
  };
}

/** Gives the task to the next agent, under the next fence. */
export function accept(decision: Decision): void {
  const before = decision.handoff as Handoff;
  const { task, at } = decision;
  const { actor: agent, nowMs } = decision.circumstances;
  const deadline = iso(nowMs + (before.first_checkpoint_ms ?? DEFAULT_POLICY.first_checkpoint_ms));
  const fence = task.fence + 1;
  const after: Handoff = {
    ...before,
    state: "accepted",
    accepted_by: agent,
    fence,
    deadline,
    due_at: deadline,
    accepted_at: at,
  };
  const { handoff_id: handoffId, checkpoint_id: fromCheckpoint } = before;
  move(decision, "acknowledge", before, after, {
    facts: { owner_from: task.owner, owner_to: agent, offer_digest: before.offer_digest },
    event: {
      type: "HANDOFF_ACKNOWLEDGED",
      data: { handoffId, fromCheckpoint, agentId: agent, fence, previousOwner: task.owner },
    },
  });
}

export function confirm(decision: Decision, firstId: string): void {
  const before = decision.handoff as Handoff;
  const after: Handoff = { ...before, ...ended("confirmed", decision.at), first_checkpoint_id: firstId };
  const data = {
    handoffId: before.handoff_id,
    checkpointId: firstId,
    agentId: decision.circumstances.actor,
  };
  move(decision, "confirm", before, after, {
    facts: { first_checkpoint: firstId },
    event: { type: "HANDOFF_CONFIRMED", data },
  });
}

function ended(state: HandoffState, at: string) {
  return { state, deadline: null, due_at: null, ended_at: at } as const;
}

type FailedState = EventData<"HANDOFF_FAILED">["state"];

function end(
  decision: Decision,
  op: AuditOp,
  state: FailedState,
  failure: HandoffEnding,
  facts: AuditFacts = {},
): void {
  const before = decision.handoff as Handoff;
  const after: Handoff = { ...before, ...ended(state, decision.at), failure };
  const { handoff_id: handoffId, to_agent_type, accepted_by, recovery } = before;
  const { reason } = failure;
  move(decision, op, before, after, {
    facts: { reason, ...facts },
    event: {
      type: "HANDOFF_FAILED",
      data: {
        handoffId,
        state,
        reason,
        ...(to_agent_type !== null && { toAgentType: to_agent_type }),
        ...(accepted_by !== null && { acceptedBy: accepted_by }),
        ...(recovery !== null && { recoveryAttempt: recovery.attempt }),
      },
    },
  });
}

/** The owner keeps the task. */
export function cancel(decision: Decision, failure: HandoffEnding): void {
  end(decision, "cancel_handoff", "cancelled", failure);
}

/** The task ends too: its author has completed it, and no agent owns it. */
export function cancelCompleted(decision: Decision, failure: HandoffEnding): void {
  end(decision, "cancel_handoff", "cancelled", failure, { ended_as: "completed" });
}

export function lapse(decision: Decision): void {
  const { accepted_by: details } = decision.handoff as Handoff;
  end(decision, "lapse", "lapsed", { reason: "no_first_checkpoint", details });
}

/** Rejects or escalates, and blocks the task: operators are alerted of the handoff's end. */
export function failHandoff(decision: Decision, op: "reject" | "escalate", failure: HandoffEnding): void {
  const handoff = decision.handoff as Handoff;
  end(decision, op, op === "reject" ? "rejected" : "escalated", failure);
  const reason = blockReasonOf(failure.reason);
  const isAttempt = handoff.recovery !== null;
  // The watchdogs note a failed attempt, and continue from an earlier checkpoint.
  if (isAttempt && reason === "checkpoint_corrupt") return;
  block(decision, {
    reason,
    details: failure.details ?? failure.reason,
    alertSeq: decision.task.audit_seq,
    handoffId: handoff.handoff_id,
  });
}

function blockReasonOf(reason: HandoffEnding["reason"]): BlockReason {
  switch (reason) {
    case "hash_broken":
      return "checkpoint_corrupt";
    case "chain_broken":
    case "agent_type_unknown":
    case "prompt_over_budget":
      return reason;
    default:
      return "no_agent";
  }
}

type HandoffTransition = Omit<Parameters<Decision["add"]>[1], "handoff" | "facts"> & {
  readonly facts: AuditFacts;
};

function move(
  decision: Decision,
  op: AuditOp,
  before: Handoff | null,
  after: Handoff,
  { facts, ...transition }: HandoffTransition,
): void {
  const { handoff_id, state } = after;
  const named = { handoff_id, handoff_from: before?.state ?? null, handoff_to: state };
  decision.add(op, { ...transition, facts: { ...named, ...facts }, handoff: { before, after } });
}
