/** The task as clients see it: without the secrets in the texts that agents and operators wrote. */
import { redact } from "../../integrity/redaction.ts";
import { type TaskRecord, viewOf } from "../../lifecycle/task.ts";
import type { Task } from "../../protocol/task.ts";

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
