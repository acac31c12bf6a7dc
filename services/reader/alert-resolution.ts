/**
 * Whether what an alert tells of is over, by the head of its task as it is now. Only tasks that were blocked, or that wait for an agent, say
 * so themselves; of everything else, and where nothing is certain, somebody has to say that they know of it.
 */
import {
  type Alert,
  type AlertType,
  parseAlertId,
  type ReceivedAlert,
} from "../../shared/protocol/alerts.ts";
import { TASK_TABLE, type Task } from "../../shared/protocol/task.ts";

type Judge<T extends AlertType> = (alert: Alert<T>, head: Task) => boolean;

const JUDGES: { readonly [T in AlertType]: Judge<T> | null } = {
  ATTENTION_LOST: null,
  COMMAND_DEAD: null,
  HANDOFF_FAILED: ({ id, time, data: { state } }, head) => {
    if (TASK_TABLE[head.state].handoff === null) return true;
    return state === "lapsed" ? isBehind(time, head.recovery?.resumed_at) : isUnblocked(id, head);
  },
  RECOVERY_BLOCKED: ({ id }, head) => isUnblocked(id, head),
  SCRUB_FOUND: null,
};

/** Whether the head of its task has to be read for it. */
export function canBeResolved({ type }: ReceivedAlert): boolean {
  return judgeOf(type) !== null;
}

/** null: the task is not known, or its head is damaged. */
export function isResolved(alert: ReceivedAlert, head: Task | null): boolean {
  return head !== null && judgeOf(alert.type)?.(alert as Alert, head) === true;
}

function judgeOf(type: string): Judge<AlertType> | null {
  return Object.hasOwn(JUDGES, type) ? (JUDGES[type as AlertType] as Judge<AlertType> | null) : null;
}

/**
 * Or blocked anew: what it waits for now has an alert of its own. Who takes a blocked task has not gone on with it yet: a supervisor that
 * starts a crashing agent by name would take its alert away each time.
 */
function isUnblocked(id: string, { state, block }: Task): boolean {
  return state !== "blocked" || (block !== null && parseAlertId(id).occasion !== String(block.seq));
}

function isBehind(time: string, moment: string | null | undefined): boolean {
  return moment != null && Date.parse(moment) >= Date.parse(time);
}
