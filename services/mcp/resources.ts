/** The resources of an MCP server: tasks, checkpoints and continuation prompts, to read. */
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import { isToken } from "../../shared/protocol/ids.ts";
import { withSignatures } from "../../shared/sdk/esign/display.ts";
import type { Checkpoint } from "../../shared/sdk/sdk.ts";
import type { McpSession } from "./session.ts";

const TASKS = "fleet://tasks";
const JSON_TYPE = "application/json";
const LISTED = 100;

export const RESOURCE_TEMPLATES = [
  { uriTemplate: `${TASKS}/{task}`, name: "A task", mimeType: JSON_TYPE },
  {
    uriTemplate: `${TASKS}/{task}/latest`,
    name: "The newest sound checkpoint of a task",
    mimeType: JSON_TYPE,
  },
  { uriTemplate: `${TASKS}/{task}/checkpoints/{checkpoint}`, name: "A checkpoint", mimeType: JSON_TYPE },
  {
    uriTemplate: `${TASKS}/{task}/prompt`,
    name: "The prompt from which an agent continues a task",
    mimeType: "text/markdown",
  },
];

export interface ResourceContent {
  readonly uri: string;
  readonly mimeType: string;
  readonly text: string;
}

/** The list of tasks, and the tasks themselves where the caller may see all of them. */
export async function listResources({ fleet }: McpSession) {
  const all = { uri: TASKS, name: "All tasks", mimeType: JSON_TYPE };
  const { tasks } = await fleet.admin.tasks({ limit: LISTED });
  return [
    all,
    ...tasks.map(({ task_id }) => ({
      uri: `${TASKS}/${task_id}`,
      name: `Task ${task_id}`,
      mimeType: JSON_TYPE,
    })),
  ];
}

/** Throws INVALID for another address, NOT_FOUND if there is nothing at it. */
export async function readResource(session: McpSession, uri: string): Promise<ResourceContent> {
  const { fleet } = session;
  const json = (value: unknown): ResourceContent => ({
    uri,
    mimeType: JSON_TYPE,
    text: JSON.stringify(value, null, 2),
  });
  if (uri === TASKS) return json(await fleet.admin.tasks({ limit: LISTED }));
  const [task = "", part, id, ...rest] = uri.startsWith(`${TASKS}/`)
    ? uri.slice(TASKS.length + 1).split("/")
    : [];
  if (!isToken(task) || rest.length > 0 || (part === "checkpoints") !== (id !== undefined))
    throw unknownAddress(uri);
  switch (part) {
    case undefined:
      return json(existing(await fleet.getTask(task), uri));
    case "latest":
      return json(await withStoredSignatures(session, existing((await fleet.latest(task)).checkpoint, uri)));
    case "prompt": {
      const checkpoint = existing((await fleet.latest(task)).checkpoint, uri);
      return { uri, mimeType: "text/markdown", text: session.promptOf(checkpoint) };
    }
    case "checkpoints": {
      const checkpoint = existing(await fleet.getCheckpoint(id ?? ""), uri);
      if (checkpoint.metadata.task_id !== task) throw missing(uri);
      return json(await withStoredSignatures(session, checkpoint));
    }
    default:
      throw unknownAddress(uri);
  }
}

/** A display of a checkpoint has the electronic signatures of its versions. A fleet of an older version cannot answer the query, and must not hide the checkpoint. */
async function withStoredSignatures({ fleet }: McpSession, checkpoint: Checkpoint): Promise<object> {
  const { signatures, unread } = await fleet.admin.esign.ofCheckpoints([checkpoint]);
  return {
    ...withSignatures(checkpoint, signatures),
    ...(unread !== null && { electronic_signatures_unread: unread.problem }),
  };
}

function existing<T>(found: T | null, uri: string): T {
  if (found === null) throw missing(uri);
  return found;
}

const missing = (uri: string): FleetError =>
  new FleetError("NOT_FOUND", "there is no such resource", { details: { uri } });

const unknownAddress = (uri: string): FleetError =>
  invalid("uri", `${TASKS}, or ${RESOURCE_TEMPLATES.map(({ uriTemplate }) => uriTemplate).join(", ")}`, uri);
