/**
 * The effects of a written checkpoint on its task. The first checkpoint of the agent that accepted a handoff confirms it and completes a
 * recovery. A checkpoint in phase `handoff` requests a handoff and cancels an open one. The completion of a task ends it, or requests
 * a handoff where the policy names another type for phase `complete`. More completed items than ever before restore the budget.
 */
import type { FinalStatus, ForkedFrom, UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import { FleetError } from "../protocol/errors.ts";
import type { Handoff, HandoffOptions } from "../protocol/handoff-record.ts";
import { endOf } from "./apply.ts";
import { completedItems, isSpent } from "./budget.ts";
import type { Decision } from "./decision.ts";
import { cancel, confirm, type HandoffRequest, request } from "./handoff.ts";
import { resume, settle, supersedeRecovery } from "./recovery.ts";
import { typeAfterCompletion } from "./routing.ts";
import { budgetOf, isLeftToRecovery, recoveryStateOf, type TaskRecord } from "./task.ts";
import type { AuditFacts, CheckpointChange, EventFact } from "./transition.ts";
import { conflict, type Refusal } from "./transition.ts";

export interface CreatedCheckpoint {
  readonly checkpoint: UnsealedCheckpoint;
  readonly hash: string;
  readonly options: HandoffOptions | undefined;
  /** The fence that the command carries. */
  readonly fence: number | undefined;
  /** A specialist of a mission made the fleet write it: it says nothing about the owner of the task. */
  readonly isOfSpecialist?: boolean;
}

/** True if the caller has accepted the open handoff and still owns the task by it. */
export function isNextAgent(
  open: Pick<Handoff, "state" | "accepted_by" | "fence">,
  { agent, fence }: { readonly agent: string; readonly fence: number | undefined },
): boolean {
  return open.state === "accepted" && open.accepted_by === agent && open.fence === fence;
}

export function checkpointCreated(
  decision: Decision,
  before: TaskRecord | null,
  { checkpoint, hash, options, fence, isOfSpecialist = false }: CreatedCheckpoint,
): Decision {
  const { checkpoint_id: id, agent_type, parent_ids: parents, forked_from: origin } = checkpoint.metadata;
  const { actor: agent, task: taskId } = decision.circumstances;
  const { phase } = checkpoint.execution_state;
  const items = completedItems(checkpoint);
  const open = decision.handoff;
  const requestsHandoff = phase === "handoff";
  const wasBlocked = before !== null && recoveryStateOf(before) === "blocked";
  decision.add("create", {
    checkpoint: { id, version: 1, oldHash: null, newHash: hash },
    facts: {
      phase,
      agent_type,
      items,
      ...(origin && forkFacts(origin)),
      ...(isOfSpecialist && { specialist: "yes" }),
    },
    event: {
      type: "CHECKPOINT_CREATED",
      data: {
        ...{ checkpointId: id, taskId, agentId: agent },
        ...(origin && { forkedFrom: { taskId: origin.task_id, checkpointId: origin.checkpoint_id } }),
      },
    },
  });
  if (wasBlocked && recoveryStateOf(decision.task) !== "blocked") settle(decision, "superseded");
  if (open !== null && isNextAgent(open, { agent, fence }) && parents.length > 0) {
    confirm(decision, id);
    if (isAttempted(decision.task)) resume(decision, id);
  } else if (open !== null && requestsHandoff) {
    cancel(decision, { reason: "superseded", details: id });
  } else if (
    !isOfSpecialist &&
    isAttempted(decision.task) &&
    decision.handoff === null &&
    decision.task.owner !== null
  ) {
    // The handoff of the attempt has lapsed, and its agent writes before the watchdogs have recorded that.
    resume(decision, id);
  }
  settleProgress(decision, before, items);
  if (requestsHandoff) {
    supersedeRecovery(decision);
    const supersedesRecovery = before !== null && isLeftToRecovery(before, open);
    request(decision, { id, checkpoint, hash, options: options ?? {}, supersedesRecovery });
  }
  return decision;
}

/** The origin of a forked task, as its first entry states it. */
function forkFacts({ task_id, checkpoint_id, version, hash, entry }: ForkedFrom): AuditFacts {
  return {
    source_task: task_id,
    source_checkpoint: checkpoint_id,
    source_version: version,
    source_hash: hash,
    source_entry: entry,
  };
}

function isAttempted({ work }: TaskRecord): boolean {
  return work.kind === "recovering" && work.stage === "attempted";
}

/** Restores the budget after progress; while an attempt is due or open, no agent works whose budget it could be. */
function settleProgress(decision: Decision, before: TaskRecord | null, items: number): void {
  if (before === null || items <= before.completed_items) return;
  const state = recoveryStateOf(decision.task);
  // The owner whose handoff no agent accepted may change its checkpoints while the task is blocked.
  const isAtWork =
    state === "resumed" || state === "idle" || (state === "blocked" && decision.task.owner !== null);
  if (isAtWork && isSpent(budgetOf(decision.task))) settle(decision, "progress");
}

export interface ChangedCheckpoint {
  /** The id of the command, and of the handoff that it requests. */
  readonly commandId: string;
  readonly op: "update" | "finalize" | "link";
  readonly change: CheckpointChange;
  readonly next: UnsealedCheckpoint;
  readonly event: EventFact;
  readonly facts: AuditFacts;
  readonly finalStatus?: FinalStatus;
}

/** Refused for a draft of an earlier owner, unless the task has no owner now. Only the newest checkpoint completes the task. */
export function checkpointChanged(
  decision: Decision,
  before: TaskRecord,
  { commandId, op, change: written, next, event, facts, finalStatus }: ChangedCheckpoint,
): Decision | Refusal {
  const { phase } = next.execution_state;
  const as = finalStatus === undefined ? null : endOf(finalStatus, phase);
  const refused =
    earlierOwner(decision, before, next) ??
    notEndable(before, as) ??
    (as === "completed" ? notNewest(before, next) : null);
  if (refused !== null) return refused;
  const items = completedItems(next);
  const nextType = as === "completed" ? typeAfter(decision, before, next) : null;
  const completion = nextType !== null && { completion_seq: next.metadata.seq };
  const allFacts = { ...facts, ...(op !== "link" && { phase }), items, ...completion };
  decision.add(op, { checkpoint: written, event, facts: allFacts });
  if (nextType !== null) {
    handOffCompletion(decision, before, { id: commandId, checkpoint: next, hash: written.newHash as string });
    return decision;
  }
  if (as === null) {
    if (op === "update") settleProgress(decision, before, items);
    return decision;
  }
  settleEnd(decision, before, as);
  return decision;
}

/** The ended task has no open handoff and no recovery. `before`: the task before it ended. */
export function settleEnd(
  decision: Decision,
  before: TaskRecord,
  as: "completed" | "failed" | "cancelled",
): void {
  if (decision.handoff !== null) cancel(decision, { reason: "task_ended", details: as });
  if (recoveryStateOf(before) !== "idle") settle(decision, "superseded");
}

/** The type that continues the completed task; null: the task ends. Only the first completion is handed off. */
function typeAfter(
  { circumstances: { policies, tenant } }: Decision,
  { work, completion_seq }: TaskRecord,
  { metadata }: UnsealedCheckpoint,
): string | null {
  if (work.kind === "ended" || completion_seq !== null) return null;
  return typeAfterCompletion(policies, tenant, metadata.agent_type);
}

function handOffCompletion(
  decision: Decision,
  before: TaskRecord,
  handoff: Pick<HandoffRequest, "id" | "checkpoint" | "hash">,
): void {
  const open = decision.handoff;
  if (open !== null) cancel(decision, { reason: "superseded", details: handoff.id });
  supersedeRecovery(decision);
  request(decision, {
    ...handoff,
    options: { next_phase: "complete", reason: "the work is complete" },
    trigger: { reason: "task_complete" },
    supersedesRecovery: isLeftToRecovery(before, open),
  });
}

function earlierOwner(
  decision: Decision,
  { owner, taken_seq }: TaskRecord,
  { metadata }: UnsealedCheckpoint,
): Refusal | null {
  const { actor } = decision.circumstances;
  const { agent_id: author } = metadata;
  if (owner === null || metadata.seq > taken_seq || author === owner || author === actor) return null;
  return conflict("earlier_owner", "the draft belongs to an earlier owner of the task", {
    checkpoint_id: metadata.checkpoint_id,
    agent_id: metadata.agent_id,
    owner,
  });
}

/** The completion of an older checkpoint would end or hand off the task from before its newest work. */
function notNewest(
  { task_id, seq, latest_id }: TaskRecord,
  { metadata }: UnsealedCheckpoint,
): Refusal | null {
  if (metadata.seq === seq) return null;
  return conflict("newer_checkpoint", "only the newest checkpoint can complete the task", {
    task_id,
    checkpoint_id: metadata.checkpoint_id,
    latest_id,
  });
}

/** A completed task cannot be cancelled, a cancelled one can neither complete nor fail. */
function notEndable({ work }: TaskRecord, as: ReturnType<typeof endOf>): Refusal | null {
  if (as === null || work.kind !== "ended" || work.as === as || work.as === "failed") return null;
  if (work.as === "completed" && as === "failed") return null;
  const details = { state: work.as, event: as };
  return {
    refused: "ended",
    error: new FleetError("CONFLICT", "the task's state does not allow this", { details }),
  };
}
