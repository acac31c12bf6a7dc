/** The roles that may send each operation. */
import { type CommandOp, MISSION_QUERY_OPS, type QueryOp } from "./operations.ts";
import { CLIENT_ROLES, type ClientRole, ROLES_OF_PEOPLE } from "./roles.ts";

export const ACTING = ["agent", "orchestrator", "operator"] as const;
export const WATCHING = ["orchestrator", ...ROLES_OF_PEOPLE] as const;
/** Without the token of a person a signature is refused, and no agent is a person. */
const SIGNING: readonly ClientRole[] = ["operator", "reviewer"];
/** They decide what is kept and what is removed. */
const KEEPING: readonly ClientRole[] = ["operator", "custodian"];

/** `recover` takes a task away from another principal, so it is not for agents. */
const RECOVER_ROLES: readonly ClientRole[] = ["orchestrator", "operator"];

/** An import states what others did, under their names. */
const IMPORT_OPS: readonly CommandOp[] = [
  "import_begin",
  "import_version",
  "import_removed",
  "import_records",
  "import_end",
];

const READ_OPS: readonly QueryOp[] = [
  "get",
  "latest",
  "history",
  "by_agent",
  "search",
  "task",
  "audit",
  "handoff",
  "handoffs",
  "recovery_point",
  // Public keys, with which each of them can verify signatures.
  "signing_keys",
  "audit_log",
  "audit_proof",
  "audit_anchors",
  "signatures",
  // The gateway reports with the rights of the caller that it has refused, in the name of that caller.
  "denial_record",
  "artifact",
  "artifact_read",
  "artifacts",
  ...MISSION_QUERY_OPS,
];
/** Queries that store an artifact. */
const UPLOAD_OPS: readonly QueryOp[] = ["artifact_begin", "artifact_part", "artifact_commit"];
const OVERVIEW_OPS: readonly QueryOp[] = [
  "tasks",
  "recoveries",
  "status",
  "agents",
  "alerts",
  "alert",
  "index_status",
  "scrub_status",
  "scrub_findings",
  "queue_status",
  "dead_list",
];

/** The records of a mission have the messages of all its agents. */
const AUDITED_OPS: readonly QueryOp[] = [
  "tenant_audit",
  "tenant_audit_proof",
  "access_log",
  "access_blocks",
  "mission_records",
  "holds",
  "shreds",
  "shred_certificate",
  "signers",
];

/** What the custodian of the records does besides reading. */
const KEEPING_OPS: readonly string[] = ["prunable", "export_record"];

/**
 * No agent removes checkpoints or changes what is kept: an agent that is led astray must not be able to remove the
 * history of its task. Signing, finalizing, exporting, holding and shredding are rights of their own: a reviewer
 * signs and cannot remove, and a custodian removes and cannot sign.
 */
export function commandRoles(op: CommandOp): readonly ClientRole[] {
  if (op === "remove" || op === "retain" || op === "hold" || op.startsWith("shred_")) return KEEPING;
  if (op === "signature_add") return SIGNING;
  if (op === "finalize") return [...ACTING, "reviewer"];
  if (IMPORT_OPS.includes(op)) return ["operator"];
  return op === "recover" ? RECOVER_ROLES : ACTING;
}

export function queryRoles(op: QueryOp): readonly ClientRole[] {
  // What a person signs begins with it, so a person without the right is refused before a login.
  if (op === "signing_request") return SIGNING;
  if (op === "turn_event" || UPLOAD_OPS.includes(op)) return ACTING;
  // Those that may subscribe to them.
  if (op === "events") return ["agent", ...WATCHING];
  if (op === "offer_next" || op === "offer_settle") return [...ACTING, "runner"];
  if (READ_OPS.includes(op)) return CLIENT_ROLES;
  if (OVERVIEW_OPS.includes(op)) return WATCHING;
  if (KEEPING_OPS.includes(op)) return KEEPING;
  return AUDITED_OPS.includes(op) ? ROLES_OF_PEOPLE : ["operator"];
}
