/**
 * One function decides the effect of a command or an observation on a task: transitions, or a refusal. Writer, reader, coordinator and
 * watchdog call it with the records that they have read; `shared/records` writes the result.
 */
import { FleetError, invalid } from "../protocol/errors.ts";
import type { Handoff } from "../protocol/handoff-record.ts";
import type { RecoveryFailure } from "../protocol/recovery-record.ts";
import { block } from "./block.ts";
import { type Aggregate, Chain, type Circumstances } from "./chain.ts";
import { checkpointChanged, checkpointCreated } from "./checkpoints.ts";
import { failAgent } from "./failure.ts";
import {
  accept,
  cancel,
  failHandoff,
  handoffStateAfter,
  lapse,
  offer,
  replacesRecovery,
  request,
  validateHandoff,
} from "./handoff.ts";
import type { Input, RecoverInput } from "./input.ts";
import { release, take } from "./ownership.ts";
import { attempt, retry, supersedeRecovery } from "./recovery.ts";
import { budgetOf, isEndedWork, isLeftToRecovery, openHandoffOf, stateOf, type TaskRecord } from "./task.ts";
import { conflict, type Refusal, refuse } from "./transition.ts";

/** The transitions, in their order, or why there are none. */
export function decide(state: Aggregate, input: Input, circumstances: Circumstances): Chain | Refusal {
  const chain = new Chain(circumstances, state);
  const { task } = state;
  switch (input.type) {
    case "create":
      return checkpointCreated(chain, task, input);
    case "take":
      return take(chain, task, input);
    case "release":
      return release(chain, task);
    default:
      return task === null ? unknownTask(input, circumstances) : decideKnown(chain, task, input);
  }
}

function unknownTask(input: Input, { task: task_id }: Circumstances): Refusal {
  const details = { task_id };
  if (input.type === "cancel_handoff")
    return conflict("unknown_task", "no handoff of this task is open", details);
  return refuse("unknown_task", new FleetError("NOT_FOUND", "there is no such task", { details }));
}

type KnownInput = Exclude<Input, { type: "create" | "take" | "release" }>;

function decideKnown(chain: Chain, task: TaskRecord, input: KnownInput): Chain | Refusal {
  switch (input.type) {
    case "change":
      return checkpointChanged(chain, task, input);
    case "handoff":
      return requestHandoff(chain, task, input.request);
    case "acknowledge":
      return acknowledge(chain, input);
    case "cancel_handoff":
      return cancelHandoff(chain, input);
    case "recover":
      return recover(chain, task, input);
    case "agent_failed":
      return failAgent(chain, task, input);
    case "attempt_due":
      if (!isAttemptDue(chain, task, input.dueAt)) return refuse("moved");
      attempt(chain, input.handoffId, input.point);
      return chain;
    case "no_recovery_point":
      if (!isAttemptDue(chain, task, input.dueAt)) return refuse("moved");
      block(chain, { reason: input.reason, details: input.details });
      return chain;
    case "probe_due":
      return probe(chain, task, input.dueAt);
    case "validated":
    case "offer_ready":
    case "handoff_invalid":
    case "not_accepted":
    case "first_checkpoint_overdue":
      return coordinate(chain, input);
  }
}

function requestHandoff(
  chain: Chain,
  task: TaskRecord,
  asked: Extract<Input, { type: "handoff" }>["request"],
): Chain | Refusal {
  const open = chain.handoff;
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
  supersedeRecovery(chain);
  request(chain, { ...asked, supersedesRecovery });
  return chain;
}

/** Gives the task to the caller, if the offer still stands and is for its type. */
function acknowledge(
  chain: Chain,
  { named, agentType, checkpointId }: Extract<Input, { type: "acknowledge" }>,
): Chain | Refusal {
  const { nowMs } = chain.circumstances;
  if (chain.handoff?.handoff_id !== named.handoff_id || handoffStateAfter(named, "acknowledge") === null) {
    return wrongState(named);
  }
  if (named.deadline === null || nowMs > Date.parse(named.deadline)) {
    const { handoff_id, state, deadline } = named;
    return conflict("offer_expired", "the offer has expired", { handoff_id, state, deadline });
  }
  if (agentType !== named.to_agent_type) {
    return refuse("other_offer", invalid("agent_type", `${named.to_agent_type}, as in the offer`, agentType));
  }
  if (checkpointId !== named.checkpoint_id) {
    const expected = `${named.checkpoint_id}, as in the offer`;
    return refuse("other_offer", invalid("checkpoint_id", expected, checkpointId));
  }
  accept(chain);
  return chain;
}

/** A task that only this handoff could continue after a failure is blocked, and operators are alerted. */
function cancelHandoff(
  chain: Chain,
  { named, reason }: Extract<Input, { type: "cancel_handoff" }>,
): Chain | Refusal {
  const handoff = named ?? chain.handoff;
  const { task: task_id, actor } = chain.circumstances;
  if (handoff === null) return conflict("no_open_handoff", "no handoff of this task is open", { task_id });
  if (chain.handoff?.handoff_id !== handoff.handoff_id || handoffStateAfter(handoff, "cancel") === null) {
    return wrongState(handoff);
  }
  cancel(chain, { reason: "withdrawn", details: reason });
  const { owner, alerted } = chain.task;
  const details = `${actor} cancelled the handoff${reason === null ? "" : `: ${reason}`}`;
  if (replacesRecovery(handoff)) block(chain, { reason: "withdrawn", details });
  // The task was blocked before the handoff was requested, and no agent owns it: it waits for the same operator again.
  else if (owner === null && alerted !== null) block(chain, { reason: alerted.reason, details });
  return chain;
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
  chain: Chain,
  task: TaskRecord,
  { commandId, choice, reset, force, aliveUntilMs }: RecoverInput,
): Chain | Refusal {
  const { task: task_id, nowMs } = chain.circumstances;
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
  if (chain.handoff !== null) cancel(chain, { reason: "superseded", details: commandId });
  retry(chain, { choice, reset, isProbe: false, failure: revokedOwner(task, chain.at) });
  return chain;
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

function isAttemptDue({ circumstances }: Chain, { work }: TaskRecord, dueAt: string): boolean {
  if (work.kind !== "recovering" || work.stage !== "waiting") return false;
  return work.due_at === dueAt && Date.parse(dueAt) <= circumstances.nowMs;
}

/** One more attempt for a blocked task whose budget is spent, if the policy makes probes. */
function probe(chain: Chain, task: TaskRecord, dueAt: string): Chain | Refusal {
  const { work } = task;
  const { nowMs } = chain.circumstances;
  const isDue = work.kind === "blocked" && work.due_at === dueAt && Date.parse(dueAt) <= nowMs;
  if (!isDue || work.taken_by !== null) return refuse("moved");
  retry(chain, { choice: budgetOf(task).choice, reset: false, isProbe: true, failure: null });
  return chain;
}

type Coordination = Extract<
  Input,
  { type: "validated" | "offer_ready" | "handoff_invalid" | "not_accepted" | "first_checkpoint_overdue" }
>;

/** The coordinators' transitions. Each is made only from the state where it begins, so that any number of coordinators may try it. */
function coordinate(chain: Chain, input: Coordination): Chain | Refusal {
  if (chain.handoff === null || openHandoffOf(chain.task) !== chain.handoff.handoff_id)
    return refuse("moved");
  switch (input.type) {
    case "validated":
      if (!allows(chain, "validate")) return refuse("moved");
      validateHandoff(chain, input.toAgentType);
      return chain;
    case "offer_ready": {
      validateFirst(chain, input.toAgentType);
      const { to_agent_type: toAgent, attempt: made } = chain.handoff;
      if (toAgent === null || !allows(chain, "offer") || made + 1 !== input.offering.attempt)
        return refuse("moved");
      offer(chain, toAgent, input.offering);
      return chain;
    }
    case "handoff_invalid":
      if (!allows(chain, "reject")) return refuse("moved");
      failHandoff(chain, "reject", input.failure);
      return chain;
    case "not_accepted":
      validateFirst(chain, input.toAgentType);
      if (!allows(chain, "escalate") || chain.handoff.attempt !== input.attempt) return refuse("moved");
      failHandoff(chain, "escalate", input.failure);
      return chain;
    case "first_checkpoint_overdue": {
      const { deadline } = chain.handoff;
      if (!allows(chain, "lapse") || chain.circumstances.nowMs < Date.parse(deadline ?? ""))
        return refuse("moved");
      lapse(chain);
      return chain;
    }
  }
}

function allows({ handoff }: Chain, event: Parameters<typeof handoffStateAfter>[1]): boolean {
  return handoff !== null && handoffStateAfter(handoff, event) !== null;
}

/** A request is validated in the transaction that offers or escalates it. */
function validateFirst(chain: Chain, toAgentType: string | undefined): void {
  if (toAgentType !== undefined && allows(chain, "validate")) validateHandoff(chain, toAgentType);
}
