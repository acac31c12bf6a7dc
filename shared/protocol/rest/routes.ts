/**
 * The HTTP API of the gateway: one table of its operations, from which its routes, its requests on the bus and
 * `openapi.json` follow. Names of members are those of the commands and queries.
 */
import type { AgentRequestOp, AnsweredOp, CommandOp } from "../subjects.ts";

/** The path below which all operations are. */
export const REST_BASE = "/api/v1";

export type RestMethod = "GET" | "POST" | "PATCH" | "DELETE";

/** What an operation does on the bus, in the name of its caller. */
export type RestAct =
  /**
   * A query. Its members come from the path and the query string, or else from the body. `unwrap`: the answer is
   * this member of the result.
   */
  | {
      readonly kind: "query";
      readonly op: AnsweredOp;
      readonly unwrap?: "checkpoint" | "task" | "handoff" | "mission";
    }
  /**
   * A command. Its members come from the path and the body. `taskOf`: the path names no task, so the gateway
   * asks for that of this record. `body`: the whole body is the patch, or is the checkpoint.
   */
  | {
      readonly kind: "command";
      readonly op: CommandOp;
      readonly taskOf?: "checkpoint_id" | "child_id" | "handoff_id" | "mission_id";
      readonly body?: "patch" | "checkpoint";
    }
  /** A request to the runner of an agent. */
  | { readonly kind: "agent_request"; readonly op: Exclude<AgentRequestOp, "checkpoint"> }
  /** A recovery from a checkpoint, or its preview (seed 002). */
  | { readonly kind: "recover_checkpoint" }
  /** Removes what retention keeps no longer, or lists it (seed 002). */
  | { readonly kind: "prune" }
  /** Events as a stream for `Accept: text/event-stream`, and otherwise a page of them. */
  | { readonly kind: "events" }
  /** The caller itself. */
  | { readonly kind: "caller" };

export interface RestRoute {
  /** The name of the operation in documents, metrics and logs. */
  readonly id: string;
  readonly method: RestMethod;
  /** Below {@link REST_BASE}; `{name}` is a parameter. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly act: RestAct;
}

export const REST_TAGS = {
  checkpoints: "The recorded states of tasks.",
  tasks: "Tasks, their owners and fences.",
  missions: "Missions: tasks that are divided into sorties. The id of a mission is that of its task.",
  handoffs: "Handoffs of tasks from one agent to the next.",
  recovery: "Tasks whose agent failed, and the points from which they continue.",
  audit: "The hash chains of all transitions.",
  events: "Committed transitions, as CloudEvents.",
  agents: "Agents, by their heartbeats.",
  alerts: "What needs an operator.",
  operations: "The fleet itself: status, queue, search index, scrub.",
} as const;

const read = (
  id: string,
  path: string,
  tag: keyof typeof REST_TAGS,
  summary: string,
  op: AnsweredOp,
  unwrap?: "checkpoint" | "task" | "handoff" | "mission",
): RestRoute => ({
  id,
  method: "GET",
  path,
  tag,
  summary,
  act: { kind: "query", op, ...(unwrap !== undefined && { unwrap }) },
});

const change = (
  id: string,
  path: string,
  tag: keyof typeof REST_TAGS,
  summary: string,
  act: RestAct,
  method: RestMethod = "POST",
): RestRoute => ({ id, method, path, tag, summary, act });

const CHECKPOINTS: readonly RestRoute[] = [
  change("createCheckpoint", "/checkpoints", "checkpoints", "Create a checkpoint of a task.", {
    kind: "command",
    op: "create",
    body: "checkpoint",
  }),
  read("listCheckpoints", "/checkpoints", "checkpoints", "List checkpoints, newest first.", "search"),
  read("searchCheckpoints", "/search", "checkpoints", "Find checkpoints by their words.", "search"),
  read(
    "getCheckpoint",
    "/checkpoints/{checkpoint_id}",
    "checkpoints",
    "Get a checkpoint.",
    "get",
    "checkpoint",
  ),
  change(
    "updateCheckpoint",
    "/checkpoints/{checkpoint_id}",
    "checkpoints",
    "Change a draft by a JSON merge patch (RFC 7396).",
    { kind: "command", op: "update", taskOf: "checkpoint_id", body: "patch" },
    "PATCH",
  ),
  change("finalizeCheckpoint", "/checkpoints/{checkpoint_id}/finalize", "checkpoints", "Finalize a draft.", {
    kind: "command",
    op: "finalize",
    taskOf: "checkpoint_id",
  }),
  change("linkCheckpoint", "/checkpoints/{child_id}/link", "checkpoints", "Add a parent to a draft.", {
    kind: "command",
    op: "link",
    taskOf: "child_id",
  }),
  change(
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
  change(
    "recoverCheckpoint",
    "/checkpoints/{checkpoint_id}/recover",
    "recovery",
    "Recover its task from it, or show what a recovery would do (`dry_run`).",
    { kind: "recover_checkpoint" },
  ),
  change(
    "deleteCheckpoint",
    "/checkpoints/{checkpoint_id}",
    "checkpoints",
    "Remove a checkpoint, unless retention keeps it.",
    { kind: "command", op: "remove", taskOf: "checkpoint_id" },
    "DELETE",
  ),
  change(
    "pruneCheckpoints",
    "/checkpoints/prune",
    "checkpoints",
    "Remove the checkpoints that retention keeps no longer, or list them (`dry_run`).",
    { kind: "prune" },
  ),
  read(
    "listCheckpointsOfTask",
    "/tasks/{task_id}/checkpoints",
    "checkpoints",
    "The history of a task.",
    "history",
  ),
  read(
    "getLatestCheckpoint",
    "/tasks/{task_id}/checkpoints/latest",
    "checkpoints",
    "The newest sound checkpoint of a task, from which an agent continues.",
    "latest",
  ),
  read(
    "listCheckpointsOfAgent",
    "/agents/{agent_id}/checkpoints",
    "checkpoints",
    "The checkpoints of an agent, newest first.",
    "by_agent",
  ),
];

const command = (op: CommandOp): RestAct => ({ kind: "command", op });

const TASKS: readonly RestRoute[] = [
  read("listTasks", "/tasks", "tasks", "List tasks by their ids.", "tasks"),
  read("getTask", "/tasks/{task_id}", "tasks", "Get a task.", "task", "task"),
  change("takeTask", "/tasks/{task_id}/take", "tasks", "Become the owner of a task.", command("take")),
  change(
    "retainTask",
    "/tasks/{task_id}/retention",
    "tasks",
    "Change how long the checkpoints of a task are kept; place or end a hold.",
    command("retain"),
  ),
  change("releaseTask", "/tasks/{task_id}/release", "tasks", "Release a task.", command("release")),
];

const ofMission = (op: CommandOp): RestAct => ({ kind: "command", op, taskOf: "mission_id" });

const MISSIONS: readonly RestRoute[] = [
  read("listMissions", "/missions", "missions", "List missions by their ids.", "missions"),
  read("getMission", "/missions/{mission_id}", "missions", "Get a mission.", "mission", "mission"),
  read("listSorties", "/missions/{mission_id}/sorties", "missions", "The sorties of a mission.", "sorties"),
  change(
    "startMission",
    "/missions/{mission_id}/start",
    "missions",
    "Start a mission, as its coordinator.",
    ofMission("mission_start"),
  ),
  change(
    "updateMission",
    "/missions/{mission_id}/update",
    "missions",
    "Change a mission, or end it.",
    ofMission("mission_update"),
  ),
  change(
    "addSorties",
    "/missions/{mission_id}/sorties",
    "missions",
    "Divide a mission into sorties.",
    ofMission("sortie_add"),
  ),
  change(
    "updateSortie",
    "/missions/{mission_id}/sorties/{sortie_id}",
    "missions",
    "Change a sortie.",
    ofMission("sortie_update"),
  ),
  change(
    "checkpointMission",
    "/missions/{mission_id}/checkpoints",
    "missions",
    "Write a checkpoint of a mission and its sorties.",
    ofMission("mission_checkpoint"),
  ),
];

const HANDOFFS: readonly RestRoute[] = [
  read("listHandoffs", "/handoffs", "handoffs", "List handoffs, newest first.", "handoffs"),
  read("getHandoff", "/handoffs/{handoff_id}", "handoffs", "Get a handoff.", "handoff", "handoff"),
  change("acknowledgeHandoff", "/handoffs/{handoff_id}/acknowledge", "handoffs", "Accept an offer.", {
    kind: "command",
    op: "acknowledge",
    taskOf: "handoff_id",
  }),
  change("cancelHandoff", "/handoffs/{handoff_id}/cancel", "handoffs", "Cancel a handoff.", {
    kind: "command",
    op: "cancel_handoff",
    taskOf: "handoff_id",
  }),
  read(
    "getHandoffOfTask",
    "/tasks/{task_id}/handoff",
    "handoffs",
    "The open handoff of a task, or else its latest.",
    "handoff",
    "handoff",
  ),
  change("handOffTask", "/tasks/{task_id}/handoff", "handoffs", "Hand a task off.", command("handoff")),
];

const RECOVERY: readonly RestRoute[] = [
  read("listRecoveries", "/recoveries", "recovery", "Tasks in recovery.", "recoveries"),
  read(
    "getRecoveryPoint",
    "/tasks/{task_id}/recovery",
    "recovery",
    "The checkpoint from which a recovery would continue now, and to which agents it would go.",
    "recovery_point",
  ),
  change("recoverTask", "/tasks/{task_id}/recover", "recovery", "Recover a task now.", command("recover")),
];

const AUDIT: readonly RestRoute[] = [
  read("getAudit", "/tasks/{task_id}/audit", "audit", "The audit trail of a task.", "audit"),
  read("getTenantAudit", "/audit", "audit", "The audit chain of the tenant.", "tenant_audit"),
];

const AGENTS: readonly RestRoute[] = [
  read("listAgents", "/agents", "agents", "Agents with heartbeats, and owners without.", "agents"),
  change(
    "restartAgent",
    "/agents/{agent_id}/restart",
    "agents",
    "Have its runner stop an agent and start it again, in its own session.",
    { kind: "agent_request", op: "restart" },
  ),
  change(
    "askForCheckpoint",
    "/agents/{agent_id}/inject",
    "agents",
    "Have its runner ask an agent for a checkpoint.",
    { kind: "agent_request", op: "inject" },
  ),
  change(
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

const query = (op: AnsweredOp): RestAct => ({ kind: "query", op });

const ALERTS: readonly RestRoute[] = [
  read("listAlerts", "/alerts", "alerts", "List alerts, newest first.", "alerts"),
  read("getAlert", "/alerts/{alert_id}", "alerts", "Get an alert; the slashes of its id as %2F.", "alert"),
  change("acknowledgeAlerts", "/alerts/acknowledge", "alerts", "Acknowledge alerts.", query("alert_ack")),
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
  read("getStatus", "/status", "operations", "The state of store, bus, disks and index.", "status"),
  read("getQueue", "/queue", "operations", "The queue of commands.", "queue_status"),
  read("listDeadLetters", "/dead-letters", "operations", "Queued commands that failed.", "dead_list"),
  change(
    "retryDeadLetter",
    "/dead-letters/{seq}/retry",
    "operations",
    "Queue a dead letter's command again.",
    query("dead_retry"),
  ),
  change(
    "dropDeadLetter",
    "/dead-letters/{seq}",
    "operations",
    "Remove a dead letter.",
    query("dead_drop"),
    "DELETE",
  ),
  read("getIndex", "/index", "operations", "The search index.", "index_status"),
  change("rebuildIndex", "/index/rebuild", "operations", "Rebuild the search index.", query("index_rebuild")),
  read("getScrub", "/scrub", "operations", "When everything was last verified.", "scrub_status"),
  change("startScrub", "/scrub", "operations", "Verify everything from now on.", query("scrub_start")),
  read("listScrubFindings", "/scrub/findings", "operations", "What scrubs found.", "scrub_findings"),
];

export const REST_ROUTES: readonly RestRoute[] = [
  ...CHECKPOINTS,
  ...TASKS,
  ...MISSIONS,
  ...HANDOFFS,
  ...RECOVERY,
  ...AUDIT,
  ...EVENTS,
  ...AGENTS,
  ...ALERTS,
  ...OPERATIONS,
];

/** The commands and queries that are no operations of the HTTP API, each with the reason. */
export const BUS_ONLY: Readonly<Partial<Record<CommandOp | AnsweredOp, string>>> = {
  fork: "its task is new, and the agent that forks it owns it by a connection",
  access_record: "the acts with keys are reported by the program that has the keys",
  turn_event: "events of sessions come from hooks, which keep their order on the bus",
  offer_settle: "it names a delivery of the bus",
};

/** The names of the parameters in a path. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}
