/** The problems with which the operations of the HTTP API answer, for its OpenAPI document. */
import { ERROR_CODES, ERROR_TABLE } from "../errors.ts";
import type { RestRoute } from "../rest/route.ts";
import type { JsonSchema } from "./schemas.ts";

const PROBLEM_TYPE = "application/problem+json";

export const PROBLEM: JsonSchema = {
  type: "object",
  description: "Problem Details (RFC 9457).",
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string" },
    instance: { type: "string", description: "The id of the request, which the gateway's log has too." },
    code: { type: "string", enum: [...ERROR_CODES] },
    retryable: { type: "boolean", description: "Whether the same request can succeed later." },
    retry_after_ms: { type: "number" },
    fields: {
      type: "array",
      items: {
        type: "object",
        properties: { path: { type: "string" }, expected: { type: "string" }, got: { type: "string" } },
        required: ["path", "expected"],
      },
    },
    details: { type: "object" },
  },
  required: ["type", "title", "status", "detail", "code", "retryable"],
};

const STATUS_MEANINGS: Readonly<Record<string, string>> = {
  "406": "Only JSON is answered.",
  "412": "`If-Match` names another version, or the operation changes no version.",
  "415": "The body is not JSON.",
  "416": "The artifact has no such bytes.",
  "421": "The `Host` is not this server.",
  "429": "Too many requests.",
};

/** Each status of the error table and of HTTP itself, with the codes that it may carry. */
export function problems(): Record<string, JsonSchema> {
  const meanings: Record<string, string> = { ...STATUS_MEANINGS };
  for (const code of ERROR_CODES) {
    const { status, meaning } = ERROR_TABLE[code];
    meanings[status] = [meanings[status], `${code}: ${meaning}`].filter(Boolean).join(" ");
  }
  return Object.fromEntries(
    Object.entries(meanings).map(([status, description]) => [
      `Problem${status}`,
      {
        description,
        ...(["429", "503"].includes(status) && {
          headers: { "Retry-After": { $ref: "#/components/headers/RetryAfter" } },
        }),
        content: { [PROBLEM_TYPE]: { schema: { $ref: "#/components/schemas/problem" } } },
      },
    ]),
  );
}

export const problem = (status: number | string): JsonSchema => ({
  $ref: `#/components/responses/Problem${status}`,
});

/** The problems that every operation may answer with, and those of this one. */
export function statuses({ method, act }: RestRoute): number[] {
  const all = [400, 401, 403, 404, 421, 429, 500, 503, 504];
  if (act.kind === "command" || act.kind === "recover_checkpoint" || act.kind === "agent_request")
    all.push(409, 410);
  if (act.kind === "query" && method !== "GET") all.push(409);
  if (method !== "GET") all.push(412);
  if (act.kind === "artifact_content") all.push(416);
  if (act.kind === "artifact_content" || act.kind === "checkpoint_artifacts") all.push(409, 410);
  if (act.kind === "artifact_upload") return [...all, 409, 413];
  if (method === "POST" || method === "PATCH") all.push(413, 415);
  return all;
}
