/** What the scopes of an API key leave of the rights of its role, for the matrix of access. */
import type { RestAct, RestRoute } from "./route.ts";
import { REST_ROUTES } from "./routes.ts";
import { isInScope } from "./scopes.ts";

/** What the kinds of routes without an operation of their own do on the bus. */
const OPERATIONS_OF: Readonly<Record<Exclude<RestAct["kind"], "query" | "command">, readonly string[]>> = {
  agent_request: [],
  list_checkpoints: ["query.search", "query.history", "query.mission"],
  recover_checkpoint: ["query.recovery_point", "cmd.recover", "query.resume_preview", "cmd.mission_resume"],
  prune: ["query.prunable", "cmd.remove"],
  events: ["query.events"],
  artifact_upload: ["query.artifact_begin", "query.artifact_part", "query.artifact_commit"],
  artifact_content: ["query.artifact", "query.artifact_read"],
  checkpoint_artifacts: ["query.get"],
  caller: [],
};

/** In the form of `roleOperations`, such as `cmd.finalize`: those that a holder with the scopes can use through the HTTP API. */
export function scopedOperations(scopes: readonly string[]): ReadonlySet<string> {
  return new Set(REST_ROUTES.filter((route) => isInScope(route, scopes)).flatMap(operationsOfRoute));
}

/** The operations on the bus for which a route is, in the same form. */
export function operationsOfRoute({ act }: RestRoute): readonly string[] {
  if (act.kind === "query") return [`query.${act.op}`];
  return act.kind === "command" ? [`cmd.${act.op}`] : OPERATIONS_OF[act.kind];
}
