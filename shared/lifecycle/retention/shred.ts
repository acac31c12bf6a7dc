/**
 * Shredding is decided by two persons. Its checks have one order, at the request, at the approval and before each removal: a hold comes
 * before the promise of a class or a floor, and that before the erasure.
 */
import { FleetError } from "../../protocol/errors.ts";
import { parsePrincipal } from "../../protocol/principal.ts";
import type { Decision } from "../decision.ts";
import type { TaskRecord } from "../task.ts";
import { conflict, type Refusal, refuse } from "../transition.ts";
import { isHeld } from "./hold-rules.ts";
import { isShredding } from "./shred-rules.ts";

const REQUEST_MS = 7 * 86_400_000;

/** What keeps a checkpoint of the task; null: nothing. */
export type ShredPromise = {
  readonly checkpoint_id: string;
  readonly reason: string;
  readonly floor?: string;
  readonly until?: string;
} | null;

export interface ShredRequest {
  readonly reason: string;
  readonly case: string | null;
  readonly promise: ShredPromise;
}

export interface ShredApproval {
  readonly requestSeq: number;
  readonly promise: ShredPromise;
}

export function isOfShred({ type }: { readonly type: string }): boolean {
  return type === "shred_request" || type === "shred_approve" || type === "shred_cancel";
}

export function refuseShredding({ task_id, shred }: TaskRecord): Refusal {
  const message = shred?.state === "shredded" ? "the task was shredded" : "the task is being shredded";
  return conflict("shredding", message, { task_id, shred: shred?.state ?? null });
}

export function shredRequested(
  decision: Decision,
  task: TaskRecord,
  input: ShredRequest,
): Decision | Refusal {
  const refused = notAPerson(decision) ?? notAllowed(task, input.promise);
  if (refused !== null) return refused;
  const { nowMs } = decision.circumstances;
  const { shred, task_id } = task;
  if (isShredding(task)) return refuseShredding(task);
  if (shred != null && Date.parse(shred.expires_at) > nowMs)
    return conflict("shred_requested", "the shredding of the task is requested already", {
      ...{ task_id, shred: shred.state, requested_by: shred.requested_by, expires_at: shred.expires_at },
    });
  const { reason, case: reference } = input;
  const expires_at = new Date(nowMs + REQUEST_MS).toISOString();
  return add(decision, "shred_request", "requested", { reason, case: reference, expires_at });
}

export function shredApproved(
  decision: Decision,
  task: TaskRecord,
  input: ShredApproval,
): Decision | Refusal {
  const refused = notAPerson(decision) ?? notRequested(task, input.requestSeq);
  if (refused !== null) return refused;
  const { nowMs, actor } = decision.circumstances;
  const { shred, task_id } = task;
  if (shred != null && isSamePerson(shred.requested_by, actor)) {
    const details = { task_id, requested_by: actor };
    const message = "the person that requested the shredding cannot approve it";
    return refuse("same_person", new FleetError("FORBIDDEN", message, { details }));
  }
  if (Date.parse(shred?.expires_at ?? "") <= nowMs)
    return conflict("shred_expired", "the request has expired; request it again", {
      ...{ task_id, expires_at: shred?.expires_at ?? null },
    });
  const kept = notAllowed(task, input.promise);
  if (kept !== null) return kept;
  return add(decision, "shred_approve", "approved", { request: input.requestSeq });
}

/** Only until the approval: afterwards a part of the content may be gone. */
export function shredCancelled(decision: Decision, task: TaskRecord, requestSeq: number): Decision | Refusal {
  const refused = notAPerson(decision) ?? notRequested(task, requestSeq);
  return refused ?? add(decision, "shred_cancel", "cancelled", { request: requestSeq });
}

/** All content is gone. `certified`: the same transaction writes a certificate, so one that is absent was lost. Earlier versions made none. */
export function endShred(decision: Decision): Decision {
  const { request_seq = 0, approve_seq = 0 } = decision.task.shred ?? {};
  const facts = { request: request_seq, approve: approve_seq, certified: 1 };
  return add(decision, "shred_end", "shredded", facts);
}

function add(
  decision: Decision,
  op: "shred_request" | "shred_approve" | "shred_cancel" | "shred_end",
  state: "requested" | "approved" | "cancelled" | "shredded",
  facts: Readonly<Record<string, string | number | null>>,
): Decision {
  const { task: taskId } = decision.circumstances;
  return decision.add(op, { facts, event: { type: "TASK_SHRED_CHANGED", data: { taskId, state } } });
}

/** An agent that is led astray must never be able to remove its traces, and a service acts for no person. */
function notAPerson({ circumstances: { actor } }: Decision): Refusal | null {
  if (parsePrincipal(actor)?.kind === "human") return null;
  const details = { actor, needed: "person" };
  return refuse("not_a_person", new FleetError("FORBIDDEN", "only a person may do this", { details }));
}

/** Names of people are accounts of machines and of identity providers, many of which ignore the case of letters. */
function isSamePerson(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function notRequested(task: TaskRecord, requestSeq: number): Refusal | null {
  if (isShredding(task)) return refuseShredding(task);
  const { task_id, shred } = task;
  if (shred?.request_seq === requestSeq) return null;
  const details = { task_id, request_seq: shred?.request_seq ?? null };
  return conflict("no_shred_request", "the task has no such request", details);
}

function notAllowed(task: TaskRecord, promise: ShredPromise): Refusal | null {
  const { task_id, owner, work, retention } = task;
  if (isHeld(task)) {
    const details = { task_id, reason: "held", holds: retention?.holds };
    return conflict("kept", "a hold keeps the content of this task", details);
  }
  if (promise !== null)
    return conflict("kept", "retention keeps a checkpoint of this task", { task_id, ...promise });
  if (owner === null && (work.kind === "ended" || work.kind === "open")) return null;
  const details = { task_id, owner, work: work.kind };
  return conflict(
    "task_active",
    "the task has an owner, a handoff, a recovery or a block; end it first",
    details,
  );
}
