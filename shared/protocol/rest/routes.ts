/**
 * The HTTP API of the gateway: one table of its operations, from which its routes, its requests on the bus and
 * `openapi.json` follow. Names of members are those of the commands and queries.
 */
import type { AnsweredOp, CommandOp } from "../operations.ts";
import { ARTIFACTS } from "./artifact-routes.ts";
import { MISSIONS } from "./mission-routes.ts";
import { changeRoute, type RestAct, type RestRoute, readRoute } from "./route.ts";
import { SIGNATURES } from "./signature-routes.ts";

const CHECKPOINTS: readonly RestRoute[] = [
  changeRoute(
    "createCheckpoint",
    "/checkpoints",
    "checkpoints",
    "Create a checkpoint of a task; or with `mission_id` of a mission, whose state the fleet records.",
    { kind: "command", op: "create", body: "checkpoint" },
  ),
  changeRoute(
    "listCheckpoints",
    "/checkpoints",
    "checkpoints",
    "List checkpoints, newest first; with `mission_id` those of a mission, in short.",
    { kind: "list_checkpoints" },
    "GET",
  ),
  readRoute("searchCheckpoints", "/search", "checkpoints", "Find checkpoints by their words.", "search"),
  readRoute(
    "getCheckpoint",
    "/checkpoints/{checkpoint_id}",
    "checkpoints",
    "Get a checkpoint.",
    "get",
    "checkpoint",
  ),
  changeRoute(
    "updateCheckpoint",
    "/checkpoints/{checkpoint_id}",
    "checkpoints",
    "Change a draft by a JSON merge patch (RFC 7396).",
    { kind: "command", op: "update", taskOf: "checkpoint_id", body: "patch" },
    "PATCH",
  ),
  changeRoute(
    "finalizeCheckpoint",
    "/checkpoints/{checkpoint_id}/finalize",
    "checkpoints",
    "Finalize a draft.",
    {
      kind: "command",
      op: "finalize",
      taskOf: "checkpoint_id",
    },
  ),
  changeRoute("linkCheckpoint", "/checkpoints/{child_id}/link", "checkpoints", "Add a parent to a draft.", {
    kind: "command",
    op: "link",
    taskOf: "child_id",
  }),
  changeRoute(
    "handOffCheckpoint",
    "/checkpoints/{checkpoint_id}/handoff",
    "handoffs",
    "Hand its task off from it.",
    {
      kind: "command",
      op: "handoff",
      taskOf: "checkpoint_id",
    },
  ),
  changeRoute(
    "recoverCheckpoint",
    "/checkpoints/{checkpoint_id}/recover",
    "recovery",
    "Recover its task from it, or show what a recovery would do (`dry_run`). A mission resumes from it.",
    { kind: "recover_checkpoint" },
  ),
  changeRoute(
    "deleteCheckpoint",
    "/checkpoints/{checkpoint_id}",
    "checkpoints",
    "Remove a checkpoint, unless retention keeps it.",
    { kind: "command", op: "remove", taskOf: "checkpoint_id" },
    "DELETE",
  ),
  changeRoute(
    "pruneCheckpoints",
    "/checkpoints/prune",
    "checkpoints",
    "Remove the checkpoints that retention keeps no longer, or list them (`dry_run`).",
    { kind: "prune" },
  ),
  readRoute(
    "listCheckpointsOfTask",
    "/tasks/{task_id}/checkpoints",
    "checkpoints",
    "The history of a task.",
    "history",
  ),
  readRoute(
    "getLatestCheckpoint",
    "/tasks/{task_id}/checkpoints/latest",
    "checkpoints",
    "The newest sound checkpoint of a task, from which an agent continues.",
    "latest",
  ),
  readRoute(
    "listCheckpointsOfAgent",
    "/agents/{agent_id}/checkpoints",
    "checkpoints",
    "The checkpoints of an agent, newest first.",
    "by_agent",
  ),
];

const command = (op: CommandOp): RestAct => ({ kind: "command", op });

const SHRED_SUMMARIES = {
  request: "Request that all content of a task is removed.",
  approve: "Approve a request of another person to remove all content of a task.",
  cancel: "Cancel such a request.",
} as const;

const TASKS: readonly RestRoute[] = [
  readRoute("listTasks", "/tasks", "tasks", "List tasks by their ids.", "tasks"),
  readRoute("getTask", "/tasks/{task_id}", "tasks", "Get a task.", "task", "task"),
  changeRoute("takeTask", "/tasks/{task_id}/take", "tasks", "Become the owner of a task.", command("take")),
  changeRoute(
    "retainTask",
    "/tasks/{task_id}/retention",
    "tasks",
    "Change how long the checkpoints of a task are kept.",
    command("retain"),
  ),
  changeRoute(
    "holdTask",
    "/tasks/{task_id}/holds",
    "tasks",
    "Place or release a hold of a task: while it has one, nothing of it is removed.",
    command("hold"),
  ),
  ...(["request", "approve", "cancel"] as const).map((act) =>
    changeRoute(
      `${act}Shred`,
      `/tasks/{task_id}/shred/${act}`,
      "tasks",
      SHRED_SUMMARIES[act],
      command(`shred_${act}`),
    ),
  ),
  readRoute("listShreds", "/shreds", "tasks", "List the tasks whose shredding was requested.", "shreds"),
  readRoute(
    "getShredCertificate",
    "/tasks/{task_id}/shred/certificate",
    "tasks",
    "The signed certificate that a task was shredded.",
    "shred_certificate",
  ),
  readRoute("listHolds", "/holds", "tasks", "List the holds of all tasks.", "holds"),
  changeRoute("releaseTask", "/tasks/{task_id}/release", "tasks", "Release a task.", command("release")),
];

const HANDOFFS: readonly RestRoute[] = [
  readRoute("listHandoffs", "/handoffs", "handoffs", "List handoffs, newest first.", "handoffs"),
  readRoute("getHandoff", "/handoffs/{handoff_id}", "handoffs", "Get a handoff.", "handoff", "handoff"),
  changeRoute("acknowledgeHandoff", "/handoffs/{handoff_id}/acknowledge", "handoffs", "Accept an offer.", {
    kind: "command",
    op: "acknowledge",
    taskOf: "handoff_id",
  }),
  changeRoute("cancelHandoff", "/handoffs/{handoff_id}/cancel", "handoffs", "Cancel a handoff.", {
    kind: "command",
    op: "cancel_handoff",
    taskOf: "handoff_id",
  }),
  readRoute(
    "getHandoffOfTask",
    "/tasks/{task_id}/handoff",
    "handoffs",
    "The open handoff of a task, or else its latest.",
    "handoff",
    "handoff",
  ),
  changeRoute("handOffTask", "/tasks/{task_id}/handoff", "handoffs", "Hand a task off.", command("handoff")),
];

const RECOVERY: readonly RestRoute[] = [
  readRoute("listRecoveries", "/recoveries", "recovery", "Tasks in recovery.", "recoveries"),
  readRoute(
    "getRecoveryPoint",
    "/tasks/{task_id}/recovery",
    "recovery",
    "The checkpoint from which a recovery would continue now, and to which agents it would go.",
    "recovery_point",
  ),
  changeRoute(
    "recoverTask",
    "/tasks/{task_id}/recover",
    "recovery",
    "Recover a task now.",
    command("recover"),
  ),
];

const query = (op: AnsweredOp): RestAct => ({ kind: "query", op });

const AUDIT: readonly RestRoute[] = [
  readRoute("getAudit", "/tasks/{task_id}/audit", "audit", "The audit trail of a task.", "audit"),
  readRoute("getTenantAudit", "/audit", "audit", "The audit chain of the tenant.", "tenant_audit"),
  readRoute("getAuditLog", "/audit/log", "audit", "The newest checkpoint of the audit log.", "audit_log"),
  readRoute(
    "proveTenantAudit",
    "/audit/proof",
    "audit",
    "The receipt of an entry of the tenant's chain.",
    "tenant_audit_proof",
  ),
  readRoute("listAccess", "/audit/access", "audit", "The access log, newest first.", "access_log"),
  readRoute(
    "getAccessBlocks",
    "/audit/access/blocks",
    "audit",
    "The blocks of the access log, with what verifies them.",
    "access_blocks",
  ),
  readRoute("listAuditAnchors", "/audit/anchors", "audit", "The anchors of the audit log.", "audit_anchors"),
  readRoute(
    "proveAudit",
    "/tasks/{task_id}/audit/proof",
    "audit",
    "The receipt of an audit entry.",
    "audit_proof",
  ),
  readRoute("listSigningKeys", "/keys", "audit", "The keys with which commits are signed.", "signing_keys"),
  changeRoute("rotateEncryption", "/encryption/rotate", "audit", "Rotate keys.", query("encryption_rotate")),
  changeRoute("rotateSigningKeys", "/keys/rotate", "audit", "Replace signing keys.", query("key_rotate")),
  changeRoute(
    "revokeSigningKey",
    "/keys/{key_id}/revoke",
    "audit",
    "Revoke a signing key.",
    query("key_revoke"),
  ),
];

const AGENTS: readonly RestRoute[] = [
  readRoute("listAgents", "/agents", "agents", "Agents with heartbeats, and owners without.", "agents"),
  changeRoute(
    "restartAgent",
    "/agents/{agent_id}/restart",
    "agents",
    "Have its runner stop an agent and start it again, in its own session.",
    { kind: "agent_request", op: "restart" },
  ),
  changeRoute(
    "askForCheckpoint",
    "/agents/{agent_id}/inject",
    "agents",
    "Have its runner ask an agent for a checkpoint.",
    { kind: "agent_request", op: "inject" },
  ),
  changeRoute(
    "restartSession",
    "/sessions/{agent_id}/agent-restart",
    "agents",
    "The same as a restart, under its path in seed 001.",
    { kind: "agent_request", op: "restart" },
  ),
];

const EVENTS: readonly RestRoute[] = [
  {
    id: "getEvents",
    method: "GET",
    path: "/events",
    tag: "events",
    summary:
      "Events from now on, or from a cursor on. With `Accept: text/event-stream` a stream, which `Last-Event-ID` resumes; otherwise a page.",
    act: { kind: "events" },
  },
];

const ALERTS: readonly RestRoute[] = [
  readRoute("listAlerts", "/alerts", "alerts", "List alerts, newest first.", "alerts"),
  readRoute(
    "getAlert",
    "/alerts/{alert_id}",
    "alerts",
    "Get an alert; the slashes of its id as %2F.",
    "alert",
  ),
  changeRoute(
    "acknowledgeAlerts",
    "/alerts/acknowledge",
    "alerts",
    "Acknowledge alerts.",
    query("alert_ack"),
  ),
];

const OPERATIONS: readonly RestRoute[] = [
  {
    id: "getCaller",
    method: "GET",
    path: "/caller",
    tag: "operations",
    summary: "The principal for whom the gateway acts with these credentials.",
    act: { kind: "caller" },
  },
  readRoute("getStatus", "/status", "operations", "The state of store, bus, disks and index.", "status"),
  readRoute("getQueue", "/queue", "operations", "The queue of commands.", "queue_status"),
  readRoute("listDeadLetters", "/dead-letters", "operations", "Queued commands that failed.", "dead_list"),
  changeRoute(
    "retryDeadLetter",
    "/dead-letters/{seq}/retry",
    "operations",
    "Queue a dead letter's command again.",
    query("dead_retry"),
  ),
  changeRoute(
    "dropDeadLetter",
    "/dead-letters/{seq}",
    "operations",
    "Remove a dead letter.",
    query("dead_drop"),
    "DELETE",
  ),
  readRoute("getIndex", "/index", "operations", "The search index.", "index_status"),
  changeRoute(
    "rebuildIndex",
    "/index/rebuild",
    "operations",
    "Rebuild the search index.",
    query("index_rebuild"),
  ),
  readRoute("getScrub", "/scrub", "operations", "When everything was last verified.", "scrub_status"),
  changeRoute("startScrub", "/scrub", "operations", "Verify everything from now on.", query("scrub_start")),
  readRoute("listScrubFindings", "/scrub/findings", "operations", "What scrubs found.", "scrub_findings"),
];

export const REST_ROUTES: readonly RestRoute[] = [
  ...CHECKPOINTS,
  ...TASKS,
  ...MISSIONS,
  ...HANDOFFS,
  ...RECOVERY,
  ...AUDIT,
  ...SIGNATURES,
  ...EVENTS,
  ...ARTIFACTS,
  ...AGENTS,
  ...ALERTS,
  ...OPERATIONS,
];

/** The commands and queries that are no operations of the HTTP API, each with the reason. */
export const BUS_ONLY: Readonly<Partial<Record<CommandOp | AnsweredOp, string>>> = {
  fork: "its task is new, and the agent that forks it owns it by a connection",
  diagnose: "every service answers it, and a request of HTTP has one answer",
  access_record: "the acts with keys are reported by the program that has the keys",
  denial_record: "the gateway itself sends it, for the requests that it refuses",
  export_record: "a bundle of evidence is made by the program, which verifies it whole",
  turn_event: "events of sessions come from hooks, which keep their order on the bus",
  offer_settle: "it names a delivery of the bus",
  import_begin: "a file is imported by the program, which verifies it whole",
  import_version: "a file is imported by the program, which verifies it whole",
  import_removed: "a file is imported by the program, which verifies it whole",
  import_records: "a file is imported by the program, which verifies it whole",
  mission_records: "an export reads it over the bus, with the trail that proves it",
  import_end: "a file is imported by the program, which verifies it whole",
};
