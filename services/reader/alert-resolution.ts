/**
 * Whether the cause of an alert is gone, by the current evidence: the head of its task, the state of its
 * stream, or the disks of this machine. Without certainty an alert stays open until an operator acknowledges it.
 */
import { hostname } from "node:os";
import type { StreamState } from "../../shared/bus/bus.ts";
import {
  type Alert,
  type AlertType,
  parseAlertId,
  type ReceivedAlert,
} from "../../shared/protocol/alerts.ts";
import { hasRoomForLetter } from "../../shared/protocol/dead-letter.ts";
import { isRelieved } from "../../shared/protocol/stream-fill.ts";
import { isEnded, type Task } from "../../shared/protocol/task.ts";
import { type DiskState, isDiskRelieved } from "../../shared/runtime/disk-space.ts";

export interface Evidence {
  /** The head of the alert's task. null: the task is not known, or its head is corrupt. */
  readonly head: Task | null;
  /** The stream that the alert is about. null: not read. */
  readonly stream: StreamState | null;
  /** The disks of this machine. */
  readonly disks?: readonly DiskState[];
}

/** A rule for one type of alert, by the one piece of evidence that it needs. */
type Judge<T extends AlertType> =
  | { readonly head: (alert: Alert<T>, head: Task) => boolean }
  | { readonly stream: (state: StreamState) => boolean }
  | { readonly disks: (alert: Alert<T>, disks: readonly DiskState[]) => boolean };

/** Complete by compilation. null: nothing stored tells when the cause is gone. */
const JUDGES: { readonly [T in AlertType]: Judge<T> | null } = {
  SIGN_ATTEMPT_FAILED: null,
  ATTENTION_LOST: null,
  COMMAND_DEAD: null,
  DEAD_LETTERS_FULL: { stream: hasRoomForLetter },
  DISK_NEARLY_FULL: {
    disks: ({ data: { host, path } }, disks) =>
      host === hostname() && disks.some((disk) => disk.path === path && isDiskRelieved(disk)),
  },
  HANDOFF_FAILED: {
    head: ({ id, time, data: { state } }, head) => {
      if (isEnded(head.state)) return true;
      return state === "lapsed" ? isAtOrAfter(head.recovery?.resumed_at, time) : isUnblocked(id, head);
    },
  },
  RECOVERY_BLOCKED: { head: ({ id }, head) => isUnblocked(id, head) },
  SCRUB_FOUND: null,
  SHREDDING_BLOCKED: { head: (_alert, { shred }) => shred?.state === "shredded" },
  STREAM_NEARLY_FULL: { stream: isRelieved },
};

/** The evidence that decides about an alert of this type. */
export function evidenceOf({ type }: ReceivedAlert): keyof Evidence | null {
  const judge = judgeOf(type);
  if (judge === null) return null;
  return "head" in judge ? "head" : "stream" in judge ? "stream" : "disks";
}

export function isResolved(alert: ReceivedAlert, { head, stream, disks = [] }: Evidence): boolean {
  const judge = judgeOf(alert.type);
  if (judge === null) return false;
  if ("head" in judge) return head !== null && judge.head(alert as Alert, head);
  if ("disks" in judge) return judge.disks(alert as Alert<never>, disks);
  return stream !== null && judge.stream(stream);
}

function judgeOf(type: string): Judge<AlertType> | null {
  return Object.hasOwn(JUDGES, type) ? (JUDGES[type as AlertType] as Judge<AlertType> | null) : null;
}

/**
 * True also for a task that was blocked again, because the new block has its own alert. A take alone does not
 * unblock a task: a supervisor that restarts a crashing agent would resolve its alert each time.
 */
function isUnblocked(id: string, { blocked }: Task): boolean {
  if (blocked === null) return true;
  return blocked.alert_seq !== null && parseAlertId(id).occasion !== String(blocked.alert_seq);
}

function isAtOrAfter(moment: string | null | undefined, time: string): boolean {
  return moment != null && Date.parse(moment) >= Date.parse(time);
}
