/** The task as clients see it, whole or without the secrets in the texts that agents and operators wrote. */
import { expectedRecoveryType } from "../../lifecycle/routing.ts";
import {
  budgetOf,
  hasRecovery,
  openHandoffOf,
  recoveryDueOf,
  recoveryStateOf,
  stateOf,
  type TaskRecord,
  type TaskRetention,
} from "../../lifecycle/task.ts";
import { redact } from "../../protocol/redaction.ts";
import type { Task } from "../../protocol/task.ts";

/** The whole task. */
export function viewOf(task: TaskRecord): Task {
  const {
    work,
    budget: _budget,
    taken_seq: _taken,
    owned_seq: _owned,
    alerted: _alerted,
    completion_seq: _completion,
    completed_items,
    retention,
    shred = null,
    ...record
  } = task;
  const budget = hasRecovery(task) ? budgetOf(task) : null;
  return {
    ...record,
    ...(retention !== null && { retention: viewOfRetention(retention) }),
    ...(shred !== null && { shred: { ...shred } }),
    state: stateOf(task),
    handoff_id: openHandoffOf(task),
    recovery: budget && {
      state: recoveryStateOf(task),
      failures: budget.failures,
      attempts: budget.attempts,
      attempts_max: budget.attempts_max,
      rung: budget.rung,
      rung_attempts: budget.rung_attempts,
      avoid_id: budget.avoid_id,
      recent: [...budget.recent],
      completed_items,
      failure: budget.failure,
      action: budget.action,
      is_probe: budget.is_probe,
      choice: budget.choice,
      to_agent_type: expectedRecoveryType(task),
      checkpoint_id: budget.checkpoint_id,
      handoff_id: budget.handoff_id,
      due_at: recoveryDueOf(task),
      attempted_at: budget.attempted_at,
      resumed_at: budget.resumed_at,
    },
    blocked:
      work.kind === "blocked"
        ? {
            reason: work.reason,
            details: work.details,
            at: work.at,
            alert_seq: work.alert_seq,
            taken_by: work.taken_by,
          }
        : null,
  };
}

function viewOfRetention({ policy, holds, placed }: TaskRetention): NonNullable<Task["retention"]> {
  return { policy, holds: [...holds], ...(placed !== undefined && { placed: [...placed] }) };
}

/** The task as queries answer it, without secrets. */
export function redactedView(task: TaskRecord): Task {
  const view = viewOf(task);
  const { recovery, blocked } = view;
  const failure = recovery?.failure;
  const choice = recovery?.choice;
  return {
    ...view,
    recovery: recovery && {
      ...recovery,
      ...(failure?.details && { failure: { ...failure, details: redact(failure.details).text } }),
      ...(choice?.reason && { choice: { ...choice, reason: redact(choice.reason).text } }),
    },
    blocked: blocked && {
      ...blocked,
      ...(blocked.details && { details: redact(blocked.details).text }),
    },
  };
}
