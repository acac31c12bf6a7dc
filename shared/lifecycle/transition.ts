/**
 * The answers of `decide`: transitions or a refusal. A transition is one change of a task, as data. Its facts go into the audit trail, so that the trail alone tells how the task stands
 * (`replay.ts`); free text stays in the head and in the records it belongs to.
 */
import { FleetError } from "../protocol/errors.ts";
import type { EventData, EventType } from "../protocol/events.ts";
import type { Handoff } from "../protocol/handoff-record.ts";
import type { Offer } from "../protocol/offer.ts";
import type { RecoveryChoice, RecoveryFailure } from "../protocol/recovery-record.ts";
import type { TaskRecord } from "./task.ts";

/** The transitions of a mission. They are audited in its task and leave the task as it is. */
export const MISSION_AUDIT_OPS = [
  "mission_start",
  "mission_update",
  "mission_checkpoint",
  "mission_record",
  "mission_resume",
  "mission_lapse",
  "mission_recoverable",
  "sortie_add",
  "sortie_update",
  "sortie_restore",
  "lock_acquire",
  "lock_renew",
  "lock_release",
  "lock_wait",
  "lock_timeout",
  "message_send",
  "message_ack",
  "message_cancel",
  "message_fail",
  "message_requeue",
  "mailbox_subscribe",
] as const;

export const AUDIT_OPS = [
  "create",
  "update",
  "finalize",
  "link",
  "take",
  "release",
  "quarantine",
  "restore",
  "refuse",
  "fork",
  "handoff",
  "validate",
  "reject",
  "offer",
  "acknowledge",
  "confirm",
  "escalate",
  "lapse",
  "cancel_handoff",
  "block",
  "fail",
  "recover",
  "resume",
  "settle",
  "retry",
  "remove",
  "retain",
  "hold",
  "shred_request",
  "shred_approve",
  "shred_cancel",
  "shred_end",
  "signature_add",
  ...MISSION_AUDIT_OPS,
  "import_begin",
  "import_version",
  "import_removed",
  "import_records",
  "import_end",
  "store_restore",
] as const;
export type AuditOp = (typeof AUDIT_OPS)[number];

export type AuditFacts = Readonly<Record<string, string | number | readonly string[] | null>>;

/** An event before it has a place in the task's trail. */
export type EventFact = { [T in EventType]: { type: T; data: EventData<T> } }[EventType];

export interface CheckpointChange {
  readonly id: string;
  /** null: it cannot be read. */
  readonly version: number | null;
  readonly oldHash: string | null;
  readonly newHash: string | null;
}

export interface HandoffUpdate {
  /** null: the handoff begins. */
  readonly before: Handoff | null;
  readonly after: Handoff;
}

/** Texts that a transition adds to the head, and that the audit trail must not hold. */
export interface Texts {
  readonly failure?: RecoveryFailure | null;
  readonly choice?: RecoveryChoice | null;
  readonly details?: string | null;
}

export interface Transition {
  readonly op: AuditOp;
  /** null: the transition is about the task alone. */
  readonly checkpoint: CheckpointChange | null;
  readonly facts: AuditFacts;
  readonly event: EventFact;
  readonly handoff?: HandoffUpdate;
  /** The offer that leaves with the transition. */
  readonly offer?: Offer;
  /** The task after the transition. */
  readonly task: TaskRecord;
}

/** Why nothing changes. */
export type Why =
  | "unknown_task"
  | "unexpected_fence"
  | "not_owned"
  | "ended"
  | "no_checkpoint"
  | "earlier_owner"
  | "newer_checkpoint"
  | "handoff_open"
  | "no_open_handoff"
  | "handoff_state"
  | "offer_expired"
  | "other_offer"
  | "agent_alive"
  | "kept"
  | "no_hold"
  | "hold_placed"
  | "below_floor"
  | "not_a_person"
  | "same_person"
  | "shred_requested"
  | "no_shred_request"
  | "shred_expired"
  | "shredding"
  | "task_active"
  | "exists"
  | "importing"
  | "not_importing"
  /** Observations only. */
  | "superseded"
  | "blocked"
  | "handing_off"
  | "written"
  | "moved";

export interface Refusal {
  readonly refused: Why;
  /** The answer to the caller; null: an observation was refused, and no client waits. */
  readonly error: FleetError | null;
  /** For `agent_alive`: the time until which the agent counts as alive. */
  readonly untilMs?: number;
}

export function refuse(refused: Why, error: FleetError | null = null, untilMs?: number): Refusal {
  return { refused, error, ...(untilMs !== undefined && { untilMs }) };
}

export function conflict(refused: Why, message: string, details: Record<string, unknown>): Refusal {
  return refuse(refused, new FleetError("CONFLICT", message, { details }));
}
