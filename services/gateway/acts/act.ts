/** Carries out the operations of the table in `shared/protocol/rest/routes.ts`, one function for each kind. */
import { uuidv7 } from "uuidv7";
import type { Checkpoint } from "../../../shared/protocol/checkpoint.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { type SignaturesBeside, withoutSignatures } from "../../../shared/protocol/esign.ts";
import { parseJsonText } from "../../../shared/protocol/json.ts";
import { recoverCheckpointSchema, recoveryChoices } from "../../../shared/protocol/rest/bodies.ts";
import { missionMembers } from "../../../shared/protocol/rest/mission-checkpoint.ts";
import { isVersioned, type RestAct, type RestRoute } from "../../../shared/protocol/rest/route.ts";
import { SigningRefused } from "../../../shared/protocol/signing-refusal.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import { withAnswered } from "../../../shared/sdk/esign/display.ts";
import type { Members } from "../http/body.ts";
import {
  isKnown,
  notMatched,
  tagOf,
  tagOfCheckpoint,
  versionTag,
  wantedVersion,
} from "../http/entity-tag.ts";
import type { ActAnswer, ActContext } from "./act-context.ts";
import { uploadArtifact } from "./artifact-upload.ts";
import type { FleetAnswer, ReadResult } from "./fleet-requests.ts";
import {
  createMissionCheckpoint,
  listMissionCheckpoints,
  missionPoint,
  requireCaller,
  resumeFrom,
} from "./mission-checkpoint.ts";
import { prune } from "./prune.ts";

type ActOf<Kind extends RestAct["kind"]> = Extract<RestAct, { readonly kind: Kind }>;

export async function act(route: RestRoute, context: ActContext): Promise<ActAnswer> {
  const { act: what } = route;
  if (route.method !== "GET" && !isVersioned(route)) requireNoVersion(context);
  switch (what.kind) {
    case "query":
      return query(what, route.method !== "GET", context);
    case "command":
      return command(what, context);
    case "agent_request":
      return agentRequest(what, context);
    case "list_checkpoints":
      return context.url.mission_id === undefined
        ? query({ kind: "query", op: "search" }, false, context)
        : listMissionCheckpoints(context);
    case "recover_checkpoint":
      return recoverCheckpoint(context);
    case "prune":
      return prune(context);
    case "events":
      return { status: 200, body: await context.fleet.ask("events", context.url) };
    case "artifact_upload":
      return uploadArtifact(context);
    case "artifact_content":
      throw new TypeError("its answer is a stream");
    case "checkpoint_artifacts":
      return checkpointArtifacts(context);
    case "caller":
      return caller(context);
  }
}

/** A condition that the operation cannot keep must not be ignored (RFC 9110, 13.1.1). */
function requireNoVersion({ headers }: ActContext): void {
  if (wantedVersion(headers.get("if-match")) === undefined) return;
  throw notMatched(new FleetError("CONFLICT", "the operation changes no version that `If-Match` could name"));
}

async function query(
  { op, unwrap }: ActOf<"query">,
  changes: boolean,
  context: ActContext,
): Promise<ActAnswer> {
  const { fleet, url, body, headers } = context;
  const members = { ...body, ...url };
  if (changes) return { status: 200, body: await fleet.ask(op, members, { changes }) };
  const read = await fleet.read(op, members, unwrap);
  if (unwrap === undefined) return { status: 200, json: read.json };
  const { etag, json } =
    unwrap === "checkpoint" ? checkpointRead(read, url) : { etag: tagOf(read.json), json: read.json };
  if (isKnown(headers.get("if-none-match"), etag)) return { status: 304, headers: { etag } };
  return { status: 200, json, headers: { etag } };
}

/**
 * A checkpoint has the electronic signatures of its versions beside its own members, and that of a mission has the members of seed 002 too, except in the
 * form in which it is stored and hashed.
 */
function checkpointRead({ json, beside }: ReadResult, { as_stored: isStored }: Members) {
  const checkpoint = parseJsonText(Buffer.from(json).toString()) as Checkpoint;
  if (isStored === true) return { etag: tagOfCheckpoint(withoutSignatures(checkpoint), json), json };
  const displayed = withAnswered(checkpoint, beside as SignaturesBeside);
  const etag = tagOfCheckpoint(displayed, json);
  const mission = missionMembers(checkpoint);
  if (mission === undefined && displayed === checkpoint) return { etag, json };
  return { etag, json: Buffer.from(JSON.stringify({ ...displayed, ...mission })) };
}

async function command(what: ActOf<"command">, context: ActContext): Promise<ActAnswer> {
  if (what.body === "checkpoint" && Object.hasOwn(context.body, "mission_id"))
    return createMissionCheckpoint(context);
  const { fleet, headers, keys } = context;
  // 21 CFR 11.100: a signature is that of a person.
  if (what.op === "signature_add" && fleet.caller.isApiKey === true) throw new SigningRefused("not_a_person");
  const { task, members } = await commandInput(what, context);
  const version = wantedVersion(headers.get("if-match"));
  const sent = {
    command_id: keys.commandId(headers.get("idempotency-key"), fleet.caller) ?? uuidv7(),
    ...members,
    ...(version !== undefined && { expected_version: version }),
  };
  try {
    const answer = await fleet.command(what.op, task, sent);
    return what.op === "remove" ? { status: 204 } : answered(what, answer);
  } catch (error) {
    if (version !== undefined && error instanceof FleetError && error.code === "CONFLICT")
      throw notMatched(error);
    throw error;
  }
}

/** Members that only the gateway sets: the id of a command comes with `Idempotency-Key`. */
const RESERVED: Readonly<Record<string, string>> = {
  command_id: "absent; use the header Idempotency-Key",
  after: "absent; the gateway does not order commands",
};

interface CommandInput {
  readonly task: string;
  readonly members: Members;
}

async function commandInput(
  { op, body: form, taskOf }: ActOf<"command">,
  { fleet, url, body, tasks }: ActContext,
): Promise<CommandInput> {
  if (form === "patch") {
    const task = await tasks.ofCheckpoint(fleet, String(url.checkpoint_id));
    return { task, members: { ...url, patch: body, include_checkpoint: true } };
  }
  for (const [name, expected] of Object.entries(RESERVED))
    if (Object.hasOwn(body, name)) throw invalid(name, expected);
  if (form === "checkpoint") return createInput(body);
  const { task_id: named, ...inUrl } = url;
  const members = { ...body, ...inUrl };
  if (taskOf === undefined) return { task: taskId(named), members };
  if (taskOf === "mission_id") {
    const { mission_id: mission, ...rest } = members;
    return { task: taskId(mission), members: rest };
  }
  const id = String(url[taskOf]);
  const task =
    taskOf === "handoff_id" ? await tasks.ofHandoff(fleet, id) : await tasks.ofCheckpoint(fleet, id);
  return { task, members: op === "update" ? { ...members, include_checkpoint: true } : members };
}

/** The members of a checkpoint beside those of the command, with the agent's type in short or in the metadata. */
function createInput(body: Members): CommandInput {
  const { task_id: task, agent_type: type, fence, expected_version, handoff, metadata, ...sections } = body;
  if (
    metadata !== undefined &&
    (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
  )
    throw invalid("metadata", "an object", metadata);
  const checkpoint = {
    ...sections,
    metadata: { ...(type !== undefined && { agent_type: type }), ...metadata },
  };
  const command = { fence, expected_version, handoff, checkpoint, include_checkpoint: true };
  return { task: taskId(task), members: command };
}

function taskId(value: unknown): string {
  if (typeof value !== "string") throw invalid("task_id", "the id of a task", value);
  return value;
}

function answered({ op }: ActOf<"command">, answer: FleetAnswer): ActAnswer {
  if (answer.status === "queued") return { status: 202, body: answer };
  const { checkpoint_id: id, version, hash } = answer;
  const isVersion = typeof version === "number" && typeof hash === "string";
  const headers = {
    ...(isVersion && { etag: versionTag({ version, hash }) }),
    ...(op === "create" && { location: `/api/v1/checkpoints/${String(id)}` }),
  };
  return { status: op === "create" ? 201 : 200, body: answer, headers };
}

async function agentRequest({ op }: ActOf<"agent_request">, { fleet, url }: ActContext): Promise<ActAnswer> {
  await fleet.requestAgent(String(url.agent_id), op);
  return { status: 204 };
}

/** Of a mission's checkpoint the mission resumes; with a choice for its next agent, it is recovered as any other task. */
async function recoverCheckpoint(context: ActContext): Promise<ActAnswer> {
  const { fleet, url, body, headers, keys, tasks } = context;
  const { dry_run: isPreview, agent_id: agent, ...choices } = validate(recoverCheckpointSchema, body);
  requireCaller(fleet, "agent_id", agent);
  const checkpoint_id = String(url.checkpoint_id);
  const isOfTask = Object.keys(recoveryChoices).some((name) => Object.hasOwn(body, name));
  const point = isOfTask ? null : await missionPoint(fleet, checkpoint_id);
  if (point !== null) return resumeFrom(point, isPreview, context);
  const task = await tasks.ofCheckpoint(fleet, checkpoint_id);
  if (isPreview) {
    const { to_agent_type, force } = choices;
    const preview = await fleet.ask("recovery_point", { task_id: task, checkpoint_id, to_agent_type, force });
    const success = preview.checkpoint !== null && preview.refused === null;
    return { status: 200, body: { success, dry_run: true, preview } };
  }
  const command_id = keys.commandId(headers.get("idempotency-key"), fleet.caller) ?? uuidv7();
  const recovery = await fleet.command("recover", task, { command_id, checkpoint_id, ...choices });
  return { status: 200, body: { success: true, dry_run: false, recovery } };
}

async function checkpointArtifacts({ fleet, url }: ActContext): Promise<ActAnswer> {
  const { checkpoint } = await fleet.ask("get", url);
  // An earlier version of the fleet knew no such field, and kept what an agent wrote into it.
  const artifacts = Array.isArray(checkpoint.artifacts) ? checkpoint.artifacts : [];
  return { status: 200, body: { artifacts } };
}

async function caller({ fleet }: ActContext): Promise<ActAnswer> {
  const { tenant, name, role, scopes, expiresAt } = fleet.caller;
  const expires_at = expiresAt === null ? null : new Date(expiresAt).toISOString();
  return { status: 200, body: { tenant, name, role, scopes, expires_at } };
}
