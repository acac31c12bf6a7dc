/** The HTTP API of the gateway as an OpenAPI 3.1 document, from the table of its operations and the schemas of the protocol. */
import { z } from "zod";
import { displayedSignaturesSchema } from "../esign.ts";
import { LIMITS } from "../limits.ts";
import type { CommandOp } from "../operations.ts";
import {
  CREATE_MEMBERS,
  callerSchema,
  checkpointArtifactsSchema,
  prunedSchema,
  pruneSchema,
  recoverCheckpointSchema,
  recoveredSchema,
} from "../rest/bodies.ts";
import { createMissionCheckpointSchema, missionCheckpointPageSchema } from "../rest/mission-checkpoint.ts";
import { isVersioned, pathParameters, REST_BASE, REST_TAGS, type RestRoute } from "../rest/route.ts";
import { REST_ROUTES } from "../rest/routes.ts";
import { scopeOf } from "../rest/scopes.ts";
import { PROBLEM, problem, problems, statuses } from "./openapi-problems.ts";
import { type JsonSchema, jsonSchemas, SCHEMA_FILES } from "./schemas.ts";

const JSON_TYPE = "application/json";
/** Members of commands that the gateway itself fills in. */
const ENVELOPE = ["command_id", "after", "include_checkpoint"];

type Schemas = ReadonlyMap<string, JsonSchema>;
type Properties = Readonly<Record<string, JsonSchema>>;

const component = (file: string): JsonSchema => ({ $ref: `#/components/schemas/${nameOf(file)}` });
const nameOf = (file: string): string => file.replace(/^\.\//, "").replace(/\.json$/, "");

export function openApi(): JsonSchema {
  const schemas = jsonSchemas();
  const paths: Record<string, Record<string, JsonSchema>> = {};
  for (const route of REST_ROUTES) {
    const path = `${REST_BASE}${route.path}`;
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, schemas) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Fleet",
      version: "1",
      summary: "Checkpoint, handoff and recovery for AI agents.",
      description: DESCRIPTION,
    },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    tags: Object.entries(REST_TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description:
            "An API key of `fleet access api-key create`, or a token of an issuer that the fleet accepts.",
        },
      },
      headers: {
        ETag: { description: "The version of the record.", schema: { type: "string" } },
        RetryAfter: { description: "Seconds until a retry makes sense.", schema: { type: "integer" } },
      },
      responses: problems(),
      schemas: components(schemas),
    },
  };
}

const DESCRIPTION = `Every request needs \`Authorization: Bearer KEY\`. The gateway acts on the bus as the principal of the key, so the fleet itself decides what it may do. Keys and tokens may have scopes: then they open only the operations with these scopes.

A write may carry an \`Idempotency-Key\`: a UUIDv7, under which the same request has one effect, however often it is sent. Answers with \`cursor\` are pages; send it back for the next one. Errors are Problem Details (RFC 9457) with the fleet's \`code\` and, for wrong input, \`fields\`. An answer 202 means that the store is unavailable: the write is queued for good, and will be applied once.`;

/** The schemas that are used, without the members of JSON Schema that name a file. */
function components(schemas: Schemas): Record<string, JsonSchema> {
  const used = ["checkpoint.json", "checkpoint-input.json"].map((file) => [
    nameOf(file),
    bare(schemas, file),
  ]);
  return {
    ...(Object.fromEntries(used) as Record<string, JsonSchema>),
    problem: PROBLEM,
  };
}

function operation(route: RestRoute, schemas: Schemas): JsonSchema {
  const { id, tag, summary } = route;
  const input = inputOf(route, schemas);
  const inPath = pathParameters(route.path);
  const parameters = [
    ...inPath.map((name) => parameter("path", name, input.properties[name] ?? TOKEN, true)),
    ...(hasNoBody(route) ? queryParameters(input, inPath) : []),
    ...(isPatch(route) ? ["fence", "expected_version"].map((name) => queryParameter(input, name)) : []),
    ...headerParameters(route),
  ];
  const body = bodyOf(route, input, inPath);
  return {
    operationId: id,
    tags: [tag],
    summary,
    security: [{ bearer: route.act.kind === "caller" ? [] : [scopeOf(route)] }],
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: body }),
    responses: {
      ...responses(route, schemas),
      ...Object.fromEntries(statuses(route).map((status) => [status, problem(status)])),
    },
  };
}

/** The members of an operation, from its path, its query string or its body. */
interface Input {
  readonly properties: Properties;
  readonly required: readonly string[];
}

const TOKEN: JsonSchema = { type: "string", pattern: `^[A-Za-z0-9_-]{1,${LIMITS.id_chars_max}}$` };

function inputOf({ act }: RestRoute, schemas: Schemas): Input {
  switch (act.kind) {
    case "query":
      return membersOf(bare(schemas, SCHEMA_FILES.query(act.op)));
    case "events":
      return membersOf(bare(schemas, SCHEMA_FILES.query("events")));
    case "command":
      return commandInput(membersOf(bare(schemas, SCHEMA_FILES.command(act.op))), act, schemas);
    case "list_checkpoints": {
      const { properties, required } = membersOf(bare(schemas, SCHEMA_FILES.query("search")));
      return { properties: { mission_id: TOKEN, ...properties }, required };
    }
    case "recover_checkpoint":
      return membersOf(z.toJSONSchema(recoverCheckpointSchema, { io: "input", unrepresentable: "any" }));
    case "artifact_upload":
    case "artifact_content":
      return membersOf(bare(schemas, SCHEMA_FILES.query("artifact")));
    case "checkpoint_artifacts":
      return membersOf(bare(schemas, SCHEMA_FILES.query("get")));
    case "prune":
      return membersOf(z.toJSONSchema(pruneSchema, { io: "input", unrepresentable: "any" }));
    default:
      return { properties: {}, required: [] };
  }
}

function commandInput(
  { properties, required }: Input,
  { op, body, taskOf }: Extract<RestRoute["act"], { kind: "command" }>,
  schemas: Schemas,
): Input {
  const own = without(properties, ENVELOPE);
  const named = {
    ...own,
    ...(taskOf === "handoff_id" && { handoff_id: UUID(schemas) }),
    ...(taskOf === undefined && { task_id: TOKEN }),
    ...(taskOf === "mission_id" && { mission_id: TOKEN }),
  };
  const needed = required.filter((name) => Object.hasOwn(named, name));
  if (op !== "create" || body !== "checkpoint") return { properties: named, required: needed };
  const checkpoint = membersOf(bare(schemas, "checkpoint-input.json"));
  const beside = Object.fromEntries(
    CREATE_MEMBERS.map((name) => [name, named[name as keyof typeof named] ?? TOKEN]),
  );
  return {
    properties: { ...beside, ...checkpoint.properties },
    required: ["task_id", ...checkpoint.required.filter((name) => name !== "metadata")],
  };
}

const UUID = (schemas: Schemas): JsonSchema =>
  membersOf(bare(schemas, SCHEMA_FILES.query("get"))).properties.checkpoint_id as JsonSchema;

function membersOf(schema: JsonSchema): Input {
  const { properties = {}, required = [] } = schema as { properties?: Properties; required?: string[] };
  return { properties, required };
}

function without(properties: Properties, names: readonly string[]): Record<string, JsonSchema> {
  return Object.fromEntries(Object.entries(properties).filter(([name]) => !names.includes(name)));
}

const isPatch = ({ act }: RestRoute): boolean => act.kind === "command" && act.body === "patch";

function parameter(place: string, name: string, schema: JsonSchema, required: boolean): JsonSchema {
  return { name, in: place, required, schema };
}

const queryParameter = ({ properties, required }: Input, name: string): JsonSchema =>
  parameter("query", name, properties[name] as JsonSchema, required.includes(name));

function queryParameters(input: Input, inPath: readonly string[]): JsonSchema[] {
  // One of two members names the handoff: where the path names it, the other one is absent.
  const others = inPath.includes("handoff_id") || inPath.includes("task_id") ? ["handoff_id"] : [];
  return Object.keys(input.properties)
    .filter((name) => !inPath.includes(name) && !(others.includes(name) && !input.required.includes(name)))
    .filter((name) => !(inPath.includes("handoff_id") && name === "task_id"))
    .map((name) => queryParameter(input, name));
}

function headerParameters({ act }: RestRoute): JsonSchema[] {
  const header = (name: string, description: string): JsonSchema => ({
    ...parameter("header", name, { type: "string" }, false),
    description,
  });
  if (act.kind === "query" && act.unwrap !== undefined)
    return [header("If-None-Match", "An ETag: the answer is 304 while the record has this version.")];
  if (act.kind === "events")
    return [header("Last-Event-ID", "The id of the last event that the client has; like `after`.")];
  if (act.kind === "artifact_content")
    return [
      header("If-None-Match", "The ETag: the answer is 304."),
      header("Range", "`bytes=0-499`: these."),
    ];
  if (act.kind !== "command" && act.kind !== "recover_checkpoint") return [];
  const key = header("Idempotency-Key", "A UUIDv7, or a text of up to 255 characters; see the README.");
  return isVersioned({ act })
    ? [key, header("If-Match", "The ETag of the version to change; otherwise 412.")]
    : [key];
}

const hasNoBody = ({ method, act }: RestRoute): boolean =>
  method === "GET" || method === "DELETE" || act.kind === "agent_request";

const OF_MISSION = plain(z.toJSONSchema(createMissionCheckpointSchema, { io: "input" }));

function bodyOf(route: RestRoute, input: Input, inPath: readonly string[]): JsonSchema | undefined {
  const { act } = route;
  if (hasNoBody(route)) return undefined;
  if (act.kind === "artifact_upload") return { required: true, content: BYTES };
  const needed = input.required.filter((name) => !inPath.includes(name));
  const form = act.kind === "command" ? act.body : undefined;
  const own = { type: "object", properties: without(input.properties, inPath), required: needed };
  const schema =
    form === "patch" ? { type: "object" } : form === "checkpoint" ? { anyOf: [own, OF_MISSION] } : own;
  const required = form !== "patch" && needed.length > 0;
  const content = { [JSON_TYPE]: { schema } };
  return {
    required,
    content: isPatch({ act } as RestRoute)
      ? { "application/merge-patch+json": { schema }, ...content }
      : content,
  };
}

const ANSWER_KIND: Readonly<Partial<Record<CommandOp, string>>> = {
  create: "committed",
  update: "committed",
  finalize: "committed",
  link: "committed",
  take: "ownership",
  release: "ownership",
  handoff: "handoff_state",
  acknowledge: "acknowledged",
  cancel_handoff: "handoff_state",
  recover: "recovery",
  remove: "removed",
  retain: "retention",
  hold: "retention",
  shred_request: "shred",
  shred_approve: "shred",
  shred_cancel: "shred",
  signature_add: "signature",
  mission_start: "mission_state",
  mission_update: "mission_state",
  sortie_add: "mission_state",
  sortie_update: "mission_state",
  lock_acquire: "lock",
  lock_renew: "lock",
  lock_release: "lock",
  message_send: "message",
  message_ack: "message",
  message_cancel: "message",
  mailbox_subscribe: "mailbox_state",
  mission_checkpoint: "mission_snapshot",
  mission_resume: "resumption",
};

const SIGNED = plain(z.toJSONSchema(z.looseObject(displayedSignaturesSchema.shape), { io: "output" }));

const BYTES = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };

function responses(route: RestRoute, schemas: Schemas): Record<string, JsonSchema> {
  const { act } = route;
  switch (act.kind) {
    case "query": {
      const result = membersOf(bare(schemas, SCHEMA_FILES.answer(act.op))).properties.result as JsonSchema;
      if (act.unwrap === undefined) return { 200: answer("The result.", result) };
      const alone = membersOf(result).properties[act.unwrap] as JsonSchema;
      const record = act.unwrap === "checkpoint" ? { allOf: [alone, SIGNED] } : alone;
      return { 200: answer("The record.", record, true), 304: { description: "It has this version still." } };
    }
    case "command": {
      const applied = bare(schemas, SCHEMA_FILES.answer(ANSWER_KIND[act.op] ?? act.op));
      const queued = bare(schemas, SCHEMA_FILES.answer("queued"));
      if (route.method === "DELETE") return { 204: { description: "It is removed." } };
      return {
        [act.op === "create" ? 201 : 200]: answer("It is in the store.", applied, act.op === "create"),
        202: answer("The store is unavailable; it will be applied once.", queued),
      };
    }
    case "events": {
      const page = membersOf(bare(schemas, SCHEMA_FILES.answer("events"))).properties.result as JsonSchema;
      const stream = { "text/event-stream": { schema: { type: "string" } } };
      return { 200: { description: "Events.", content: { [JSON_TYPE]: { schema: page }, ...stream } } };
    }
    case "artifact_content": {
      const headers = { ETag: { $ref: "#/components/headers/ETag" } };
      const bytes = { description: "The bytes.", headers, content: BYTES };
      return { 200: bytes, 206: bytes, 304: { description: "The client has them." } };
    }
    case "artifact_upload": {
      const result = membersOf(bare(schemas, SCHEMA_FILES.answer("artifact"))).properties
        .result as JsonSchema;
      const artifact = membersOf(result).properties.artifact as JsonSchema;
      return {
        200: answer("It was there.", artifact, true),
        201: answer("It is stored.", artifact, true),
      };
    }
    case "checkpoint_artifacts": {
      const list = plain(z.toJSONSchema(checkpointArtifactsSchema, { io: "output" }));
      return { 200: answer("The references.", list) };
    }
    case "agent_request":
      return { 204: { description: "The runner has done it." } };
    case "list_checkpoints": {
      const found = membersOf(bare(schemas, SCHEMA_FILES.answer("search"))).properties.result as JsonSchema;
      const ofMission = plain(z.toJSONSchema(missionCheckpointPageSchema, { io: "output" }));
      return { 200: answer("A page.", { anyOf: [found, ofMission] }) };
    }
    case "recover_checkpoint":
      return {
        200: answer(
          "The recovery, or its preview.",
          plain(z.toJSONSchema(recoveredSchema, { io: "output" })),
        ),
      };
    case "prune":
      return { 200: answer("What was removed.", plain(z.toJSONSchema(prunedSchema, { io: "output" }))) };
    case "caller":
      return { 200: answer("The caller.", plain(z.toJSONSchema(callerSchema, { io: "output" }))) };
  }
}

function answer(description: string, schema: JsonSchema, tagged = false): JsonSchema {
  return {
    description,
    ...(tagged && { headers: { ETag: { $ref: "#/components/headers/ETag" } } }),
    content: { [JSON_TYPE]: { schema } },
  };
}

/** A schema of a file, without its name, and with references to components. */
function bare(schemas: Schemas, file: string): JsonSchema {
  const schema = schemas.get(file);
  if (schema === undefined) throw new Error(`there is no schema ${file}`);
  return plain(schema);
}

function plain(schema: JsonSchema): JsonSchema {
  const { $schema: _, title: __, ...rest } = schema;
  return referring(rest) as JsonSchema;
}

function referring(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(referring);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) =>
      name === "$ref" && typeof member === "string" && member.startsWith("./")
        ? ["$ref", component(member).$ref]
        : [name, referring(member)],
    ),
  );
}
