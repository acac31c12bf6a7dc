/** One operation of the HTTP API, as the tables of its operations describe it. */
import type { AgentRequestOp, AnsweredOp, CommandOp } from "../operations.ts";

/** The path below which all operations are. */
export const REST_BASE = "/api/v1";

export type RestMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** What an operation does on the bus, in the name of its caller. */
export type RestAct =
  /**
   * A query. Its members come from the path and the query string, or else from the body. `unwrap`: the answer is
   * this member of the result.
   */
  | {
      readonly kind: "query";
      readonly op: AnsweredOp;
      readonly unwrap?: UnwrappedMember;
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
  /** A search, or with `mission_id` the checkpoints of a mission (seed 002). */
  | { readonly kind: "list_checkpoints" }
  /** A recovery from a checkpoint, or its preview (seed 002). */
  | { readonly kind: "recover_checkpoint" }
  /** Removes what retention keeps no longer, or lists it (seed 002). */
  | { readonly kind: "prune" }
  /** Events as a stream for `Accept: text/event-stream`, and otherwise a page of them. */
  | { readonly kind: "events" }
  /** The body is an artifact, or the answer is one. */
  | { readonly kind: "artifact_upload" | "artifact_content" }
  /** The references of a checkpoint to artifacts. */
  | { readonly kind: "checkpoint_artifacts" }
  /** The caller itself. */
  | { readonly kind: "caller" };

/** The members of results that are the whole answer. */
export type UnwrappedMember = "checkpoint" | "task" | "handoff" | "mission" | "artifact";

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
  signatures: "Electronic signatures of people.",
  events: "Committed transitions, as CloudEvents.",
  artifacts: "Files that are too large for a checkpoint, by the hash of their bytes.",
  agents: "Agents, by their heartbeats.",
  alerts: "What needs an operator.",
  operations: "The fleet itself: status, queue, search index, scrub.",
} as const;

export const readRoute = (
  id: string,
  path: string,
  tag: keyof typeof REST_TAGS,
  summary: string,
  op: AnsweredOp,
  unwrap?: UnwrappedMember,
): RestRoute => ({
  id,
  method: "GET",
  path,
  tag,
  summary,
  act: { kind: "query", op, ...(unwrap !== undefined && { unwrap }) },
});

export const changeRoute = (
  id: string,
  path: string,
  tag: keyof typeof REST_TAGS,
  summary: string,
  act: RestAct,
  method: RestMethod = "POST",
): RestRoute => ({ id, method, path, tag, summary, act });

/** Whether the operation changes one version of a checkpoint, which `If-Match` can name. */
export function isVersioned({ act }: Pick<RestRoute, "act">): boolean {
  return act.kind === "command" && ["update", "finalize", "link"].includes(act.op);
}

/** The names of the parameters in a path. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}
