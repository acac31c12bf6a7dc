/** The names of all operations: commands, queries, and requests about a running agent. */
import { ARTIFACT_OPS } from "./artifact-ops.ts";

export const COMMAND_OPS = [
  "create",
  "update",
  "finalize",
  "link",
  "take",
  "release",
  "handoff",
  "acknowledge",
  "cancel_handoff",
  "recover",
  "remove",
  "retain",
  "hold",
  "shred_request",
  "shred_approve",
  "shred_cancel",
  "signature_add",
  "fork",
  "mission_start",
  "mission_update",
  "mission_checkpoint",
  "mission_resume",
  "sortie_add",
  "sortie_update",
  "lock_acquire",
  "lock_renew",
  "lock_release",
  "message_send",
  "message_ack",
  "message_cancel",
  "mailbox_subscribe",
  "import_begin",
  "import_version",
  "import_removed",
  "import_records",
  "import_end",
] as const;
export type CommandOp = (typeof COMMAND_OPS)[number];

/**
 * The commands that may wait in the queue while the store is unavailable. Not `take` and `acknowledge`: their
 * answer is the fence of all further commands, so no agent could continue before they are applied. Not
 * `cancel_handoff` and `recover`: when applied later they could hit another agent than the caller meant. Not
 * `remove`, `retain`, `hold`, `signature_add` and those of shredding: a person waits for the answer, and the task may need the checkpoint by then. Not
 * `fork`: when applied later it could copy another checkpoint than the caller saw. Of the commands
 * of missions only `mission_checkpoint`, which changes no work: with the others, agents would act meanwhile on a
 * mission that is not as it seems. Not the commands of an import: each needs the answer of the one before.
 */
export const QUEUED_OPS = [
  "create",
  "update",
  "finalize",
  "link",
  "release",
  "handoff",
  "mission_checkpoint",
] as const satisfies CommandOp[];
export type QueuedOp = (typeof QUEUED_OPS)[number];

export function isQueuedOp(op: string): op is QueuedOp {
  return (QUEUED_OPS as readonly string[]).includes(op);
}

/** Queries about the queue and its dead letters. */
export const QUEUE_OPS = ["queue_status", "dead_list", "dead_retry", "dead_drop"] as const;

/** Queries about the stream of alerts. */
export const ALERT_OPS = ["alerts", "alert", "alert_ack"] as const;

/** Queries about the scrub. */
export const SCRUB_OPS = ["scrub_status", "scrub_start", "scrub_findings"] as const;

/** Queries about missions. */
export const MISSION_QUERY_OPS = [
  "missions",
  "mission",
  "sorties",
  "recovery_context",
  "resume_preview",
  "locks",
  "mailbox",
  "messages",
] as const;

/** Queries about electronic signatures of people. */
export const ESIGN_QUERY_OPS = [
  "signing_request",
  "signatures",
  "signers",
  "signer_revoke",
  "passkey_revoke",
] as const;

/** Queries by which clients take offers. */
export const OFFER_OPS = ["offer_next", "offer_settle"] as const;

export const QUERY_OPS = [
  "get",
  "latest",
  "history",
  "by_agent",
  "search",
  "task",
  "tasks",
  "audit",
  "handoff",
  "handoffs",
  "recovery_point",
  "recoveries",
  "status",
  "diagnose",
  "index_rebuild",
  "index_status",
  "agents",
  "events",
  "tenant_audit",
  "access_record",
  "turn_event",
  "prunable",
  "holds",
  "shreds",
  "shred_certificate",
  "mission_records",
  "signing_keys",
  "key_rotate",
  "key_revoke",
  "encryption_rotate",
  "access_log",
  "access_blocks",
  "denial_record",
  "audit_log",
  "audit_proof",
  "audit_anchors",
  "export_record",
  "tenant_audit_proof",
  ...ESIGN_QUERY_OPS,
  ...MISSION_QUERY_OPS,
  ...ARTIFACT_OPS,
  ...SCRUB_OPS,
  ...QUEUE_OPS,
  ...ALERT_OPS,
  ...OFFER_OPS,
] as const;
export type QueryOp = (typeof QUERY_OPS)[number];

/** The queries that services answer. The stream of offers answers the other one. */
export type AnsweredOp = Exclude<QueryOp, "offer_next">;

export function isAnsweredOp(op: QueryOp): op is AnsweredOp {
  return op !== "offer_next";
}

/** Requests about a running agent: the runner serves the first two, an agent of the SDK serves the last one. */
export const AGENT_REQUEST_OPS = ["restart", "inject", "checkpoint"] as const;
export type AgentRequestOp = (typeof AGENT_REQUEST_OPS)[number];
