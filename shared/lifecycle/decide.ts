/**
 * One function decides the effect of a command or an observation on a task: transitions, or a refusal. Writer, reader, coordinator and
 * watchdog call it with the records that they have read; `shared/records` writes the result.
 */

import { FleetError, invalid } from "../protocol/errors.ts";
import type { Handoff } from "../protocol/handoff-record.ts";
import { principalLabel } from "../protocol/principal.ts";
import type { RecoveryFailure } from "../protocol/recovery-record.ts";
import { block } from "./block.ts";
import { checkpointChanged, checkpointCreated } from "./checkpoints.ts";
import { type Aggregate, type Circumstances, Decision } from "./decision.ts";
import { sign } from "./esign/sign.ts";
import { failAgent } from "./failure.ts";
import {
  accept,
  cancel,
  cancelCompleted,
  failHandoff,
  handoffStateAfter,
  lapse,
  offer,
  replacesRecovery,
  request,
  validateHandoff,
} from "./handoff.ts";
import {
  importBegun,
  importEnded,
  isImporting,
  isOfImport,
  recordsImported,
  refuseImporting,
  removalImported,
  versionImported,
} from "./import/import.ts";
import type { Input, RecoverInput } from "./input.ts";
import { release, take } from "./ownership.ts";
import { attempt, retry, settle, supersedeRecovery } from "./recovery.ts";
import { changeHolds } from "./retention/holds.ts";
import { remove, retain } from "./retention/rules.ts";
import {
  isOfShred,
  refuseShredding,
  shredApproved,
  shredCancelled,
  shredRequested,
} from "./retention/shred.ts";
import { isShredding } from "./retention/shred-rules.ts";
import {
  budgetOf,
  isEndedWork,
  isLeftToRecovery,
  openHandoffOf,
  recoveryStateOf,
  stateOf,
  type TaskRecord,
} from "./task.ts";
import { conflict, type Refusal, refuse } from "./transition.ts";

/** The transitions, in their order, or why there are none. */
export function decide(state: Aggregate, input: Input, circumstances: Circumstances): Decision | Refusal {
  const decision = new Decision(circumstances, state);
  const { task } = state;
  if (task !== null && isImporting(task) && !isOfImport(input)) return refuseImporting(task);
  if (task !== null && isShredding(task) && input.type !== "hold" && !isOfShred(input))
    return refuseShredding(task);
  switch (input.type) {
    case "import_begin":
      return importBegun(decision, task, input);
    case "create":
      return checkpointCreated(decision, task, input);
    case "take":
      return take(decision, task, input);
    case "release":
      return release(decision, task);
    default:
      return task === null ? unknownTask(input, circumstances) : decideKnown(decision, task, input);
  }
}

function unknownTask(input: Input, { task: task_id }: Circumstances): Refusal {
  const details = { task_id };
  if (input.type === "cancel_handoff")
    return conflict("unknown_task", "no handoff of this task is open", details);
  return refuse("unknown_task", new FleetError("NOT_FOUND", "there is no such task", { details }));
}

type KnownInput = Exclude<Input, { type: "create" | "take" | "release" | "import_begin" }>;

function decideKnown(decision: Decision, task: TaskRecord, input: KnownInput): Decision | Refusal {
  switch (input.type) {
    case "import_version":
      return versionImported(decision, task, input);
    case "import_removed":
      return removalImported(decision, task, input);
    case "import_records":
      return recordsImported(decision, task, input);
    case "import_end":
      return importEnded(decision, task, input);
    case "change":
      return checkpointChanged(decision, task, input);
    case "handoff":
      return requestHandoff(decision, task, input.request);
    case "acknowledge":
      return acknowledge(decision, input);
    case "cancel_handoff":
      return cancelHandoff(decision, input);
    case "recover":
      return recover(decision, task, input);
    case "remove":
      return remove(decision, input);
    case "retain":
      return retain(decision, task, input);
    case "hold":
      return changeHolds(decision, task, input);
    case "shred_request":
      return shredRequested(decision, task, input);
    case "shred_approve":
      return shredApproved(decision, task, input);
    case "shred_cancel":
      return shredCancelled(decision, task, input.requestSeq);
    case "signature_add":
      return sign(decision, input);
    case "agent_failed":
      return failAgent(decision, task, input);
    case "attempt_due":
      if (!isAttemptDue(decision, task, input.dueAt)) return refuse("moved");
      attempt(decision, input.handoffId, input.point);
      return decision;
    case "no_recovery_point":
      if (!isAttemptDue(decision, task, input.dueAt)) return refuse("moved");
      block(decision, { reason: input.reason, details: input.details });
      return decision;
    case "probe_due":
      return probe(decision, task, input.dueAt);
    case "validated":
    case "offer_ready":
    case "handoff_invalid":
    case "not_accepted":
    case "first_checkpoint_overdue":
      return coordinate(decision, input);
  }
}

function requestHandoff(
  decision: Decision,
  task: TaskRecord,
  asked: Extract<Input, { type: "handoff" }>["request"],
): Decision | Refusal {
  const open = decision.handoff;
  if (open !== null) {
    return conflict("handoff_open", "a handoff of this task is open", {
      handoff_id: open.handoff_id,
      state: open.state,
    });
  }
  if (isEndedWork(task)) {
    return conflict("ended", "the task's state does not allow this", {
      state: stateOf(task),
      event: "handoff",
    });
  }
  const supersedesRecovery = isLeftToRecovery(task);
  supersedeRecovery(decision);
  request(decision, { ...asked, supersedesRecovery });
  return decision;
}

/** Gives the task to the caller, if its offer is the one that stands and is for its type. */
function acknowledge(
  decision: Decision,
  { named, agentType, checkpointId, digest }: Extract<Input, { type: "acknowledge" }>,
): Decision | Refusal {
  const { nowMs } = decision.circumstances;
  if (decision.handoff?.handoff_id !== named.handoff_id || handoffStateAfter(named, "acknowledge") === null) {
    return wrongState(named);
  }
  if (named.deadline === null || nowMs > Date.parse(named.deadline)) {
    const { handoff_id, state, deadline } = named;
    return conflict("offer_expired", "the offer has expired", { handoff_id, state, deadline });
  }
  if (digest !== named.offer_digest) return otherOffer(named, digest);
  if (agentType !== named.to_agent_type) {
    return refuse("other_offer", invalid("agent_type", `${named.to_agent_type}, as in the offer`, agentType));
  }
  if (checkpointId !== named.checkpoint_id) {
    const expected = `${named.checkpoint_id}, as in the offer`;
    return refuse("other_offer", invalid("checkpoint_id", expected, checkpointId));
  }
  accept(decision);
  return decision;
}

/** The agent received a forged or edited offer, or an earlier one. */
function otherOffer({ handoff_id, state, attempt, offer_digest }: Handoff, digest: string): Refusal {
  const expected =
    offer_digest === null
      ? "none: an earlier version made the offer"
      : `${offer_digest}, as in offer ${attempt} of the handoff`;
  const error = new FleetError("CONFLICT", "this is not the offer that the fleet made last", {
    fields: [{ path: "offer_digest", expected, got: digest }],
    details: { handoff_id, state, attempt, offer_digest },
  });
  return refuse("other_offer", error);
}

/**
 * A task that was completed and has no owner ends: no agent would ever continue it. Any other task that only this handoff could
 * continue after a failure is blocked, and operators are alerted.
 */
function cancelHandoff(
  decision: Decision,
  { named, reason }: Extract<Input, { type: "cancel_handoff" }>,
): Decision | Refusal {
  const handoff = named ?? decision.handoff;
  const { task: task_id, actor } = decision.circumstances;
  if (handoff === null) return conflict("no_open_handoff", "no handoff of this task is open", { task_id });
  if (decision.handoff?.handoff_id !== handoff.handoff_id || handoffStateAfter(handoff, "cancel") === null) {
    return wrongState(handoff);
  }
  const withdrawn = { reason: "withdrawn", details: reason } as const;
  if (isCompletedWithoutOwner(decision.task, handoff)) {
    const recovery = recoveryStateOf(decision.task);
    cancelCompleted(decision, withdrawn);
    if (recovery !== "idle") settle(decision, "superseded");
    return decision;
  }
  cancel(decision, withdrawn);
  const { owner, alerted } = decision.task;
  const details = `${principalLabel(actor)} cancelled the handoff${reason === null ? "" : `: ${reason}`}`;
  if (replacesRecovery(handoff)) block(decision, { reason: "withdrawn", details });
  // The task was blocked before the handoff was requested, and no agent owns it: it waits for the same operator again.
  else if (owner === null && alerted !== null) block(decision, { reason: alerted.reason, details });
  return decision;
}

/** True if the completion of the newest checkpoint opened the handoff. */
function isCompletedWithoutOwner(
  { owner, seq, completion_seq }: TaskRecord,
  { trigger, recovery }: Handoff,
): boolean {
  return owner === null && completion_seq === seq && recovery === null && trigger?.reason === "task_complete";
}

function wrongState({ handoff_id, state, accepted_by }: Handoff): Refusal {
  return conflict("handoff_state", "the handoff's state does not allow this", {
    handoff_id,
    state,
    accepted_by,
  });
}

/** Revokes the ownership of a task and makes an attempt due. Also asked by the reader for a preview. */
function recover(
  decision: Decision,
  task: TaskRecord,
  { commandId, choice, reset, force, aliveUntilMs }: RecoverInput,
): Decision | Refusal {
  const { task: task_id, nowMs } = decision.circumstances;
  const { owner, fence } = task;
  if (isEndedWork(task)) {
    const details = { task_id, state: stateOf(task) };
    return conflict("ended", "the task has ended; a checkpoint written to it opens it again", details);
  }
  if (task.latest_id === null) {
    const details = { task_id };
    const error = new FleetError("NOT_FOUND", "the task has no checkpoint to continue from", { details });
    return refuse("no_checkpoint", error);
  }
  if (!force && aliveUntilMs > nowMs) {
    const alive_until = new Date(aliveUntilMs).toISOString();
    const details = { owner, fence, alive_until };
    return conflict("agent_alive", "the task's agent is alive; force takes the task from it", details);
  }
  if (decision.handoff !== null) cancel(decision, { reason: "superseded", details: commandId });
  retry(decision, { choice, reset, isProbe: false, failure: revokedOwner(task, decision.at) });
  return decision;
}

/** The owner that loses the task by an operator's request. */
function revokedOwner(
  { owner, agent_id, agent_type, fence }: TaskRecord,
  at: string,
): RecoveryFailure | null {
  if (owner === null) return null;
  return {
    class: "crash",
    signal: "request",
    agent_id: owner,
    agent_type: agent_id === owner ? agent_type : null,
    fence,
    details: null,
    resets_at: null,
    last_sign_at: null,
    noted_at: at,
  };
}

function isAttemptDue({ circumstances }: Decision, { work }: TaskRecord, dueAt: string): boolean {
  if (work.kind !== "recovering" || work.stage !== "waiting") return false;
  return work.due_at === dueAt && Date.parse(dueAt) <= circumstances.nowMs;
}

/** One more attempt for a blocked task whose budget is spent, if the policy makes probes. */
function probe(decision: Decision, task: TaskRecord, dueAt: string): Decision | Refusal {
  const { work } = task;
  const { nowMs } = decision.circumstances;
  const isDue = work.kind === "blocked" && work.due_at === dueAt && Date.parse(dueAt) <= nowMs;
  if (!isDue || work.taken_by !== null) return refuse("moved");
  retry(decision, { choice: budgetOf(task).choice, reset: false, isProbe: true, failure: null });
  return decision;
}

type Coordination = Extract<
  Input,
  { type: "validated" | "offer_ready" | "handoff_invalid" | "not_accepted" | "first_checkpoint_overdue" }
>;

/** The coordinators' transitions. Each is made only from the state where it begins, so that any number of coordinators may try it. */
function coordinate(decision: Decision, input: Coordination): Decision | Refusal {
  if (decision.handoff === null || openHandoffOf(decision.task) !== decision.handoff.handoff_id)
    return refuse("moved");
  switch (input.type) {
    case "validated":
      if (!allows(decision, "validate")) return refuse("moved");
      validateHandoff(decision, input.toAgentType);
      return decision;
    case "offer_ready": {
      validateFirst(decision, input.toAgentType);
      const { to_agent_type: toAgent, attempt: made } = decision.handoff;
      if (toAgent === null || !allows(decision, "offer") || made + 1 !== input.offering.attempt)
        return refuse("moved");
      if (isOfferOpen(decision)) return refuse("moved");
      offer(decision, toAgent, input.offering);
      return decision;
    }
    case "handoff_invalid":
      if (!allows(decision, "reject")) return refuse("moved");
      failHandoff(decision, "reject", input.failure);
      return decision;
    case "not_accepted":
      validateFirst(decision, input.toAgentType);
      if (!allows(decision, "escalate") || decision.handoff.attempt !== input.attempt) return refuse("moved");
      // A corrupt checkpoint, an unknown agent type or a prompt over the budget need not wait for an agent.
      if (input.failure.reason === "no_agent" && isOfferOpen(decision)) return refuse("moved");
      failHandoff(decision, "escalate", input.failure);
      return decision;
    case "first_checkpoint_overdue": {
      const { deadline } = decision.handoff;
      if (!allows(decision, "lapse") || decision.circumstances.nowMs < Date.parse(deadline ?? ""))
        return refuse("moved");
      lapse(decision);
      return decision;
    }
  }
}

function allows({ handoff }: Decision, event: Parameters<typeof handoffStateAfter>[1]): boolean {
  return handoff !== null && handoffStateAfter(handoff, event) !== null;
}

/**
 * True if an agent may still accept the offer. The deadline is compared with the clock of the process that commits. That keeps a step
 * that was chosen early, or from an outdated record, from ending the offer, but not a process whose own clock is ahead.
 */
function isOfferOpen({ handoff, circumstances }: Decision): boolean {
  return handoff?.state === "offered" && circumstances.nowMs < Date.parse(handoff.deadline ?? "");
}

/** A request is validated in the transaction that offers or escalates it. */
function validateFirst(decision: Decision, toAgentType: string | undefined): void {
  if (toAgentType !== undefined && allows(decision, "validate")) validateHandoff(decision, toAgentType);
}
