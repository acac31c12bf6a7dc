/** Asks the owner of a task for a fresh checkpoint before the task is reassigned (seed 003). An owner that is gone costs no time. */
import { BusError } from "../../bus/bus.ts";
import type { LatestResult } from "../../protocol/checkpoint-pages.ts";
import type { FleetEvent } from "../../protocol/events.ts";
import { answersCaller, SUBJECTS } from "../../protocol/subjects.ts";
import type { Task } from "../../protocol/task.ts";
import { createDeferred } from "../../runtime/deferred.ts";
import type { Stop } from "../../runtime/process/service.ts";
import type { ClientConnection } from "../request/connection.ts";
import type { CallOptions } from "../request/request.ts";

const DEADLINE_MS = 5_000;
/** The age at which a checkpoint needs no fresher one; an agent answers no requests in between. */
const FRESH_MS = 2_000;

/**
 * `fresh`: the owner has just written the checkpoint. `silent`: the owner is connected and wrote none in time. `absent`: it receives no
 * requests, so it is gone, or no agent of the SDK. `unowned`: the task has no owner.
 */
export interface RequestedCheckpoint {
  readonly result: "fresh" | "silent" | "absent" | "unowned";
  readonly checkpointId: string | null;
}

/** What the request needs of a client. */
interface AskingClient {
  getTask(taskId: string): Promise<Task | null>;
  latest(taskId: string): Promise<LatestResult>;
  onEvent(handler: (event: FleetEvent) => void, options: { taskId?: string }): Promise<Stop>;
}

interface CheckpointRequestParts {
  readonly connection: ClientConnection;
  readonly tenant: string;
  readonly agentId: string;
}

/** Resolves at the latest after `deadlineMs`, default five seconds. What counts is what the store has: an answer is only a hint. */
export async function requestCheckpoint(
  fleet: AskingClient,
  { connection, tenant, agentId }: CheckpointRequestParts,
  taskId: string,
  { deadlineMs = DEADLINE_MS }: CallOptions,
): Promise<RequestedCheckpoint> {
  const owner = (await fleet.getTask(taskId))?.owner ?? null;
  if (owner === null || owner === agentId) return { result: "unowned", checkpointId: null };
  const written = createDeferred<RequestedCheckpoint>();
  const stop = await fleet.onEvent(
    ({ type, data }) => {
      const { checkpointId = null, agentId: author } = data as { checkpointId?: string; agentId?: string };
      if (type === "CHECKPOINT_CREATED" && author === owner)
        written.resolve({ result: "fresh", checkpointId });
    },
    { taskId },
  );
  try {
    const latest = (await fleet.latest(taskId)).checkpoint?.metadata;
    if (latest?.agent_id === owner && Date.now() - Date.parse(latest.committed_at) < FRESH_MS)
      return { result: "fresh", checkpointId: latest.checkpoint_id };
    return await Promise.race([
      written.promise,
      unanswered(connection, SUBJECTS.agentRequest(tenant, agentId, owner, "checkpoint"), deadlineMs),
    ]);
  } finally {
    await stop();
  }
}

/** Calls `handler` for each request that a caller has sent. Without a reply address it is a message that JetStream was made to send. */
export function onCheckpointRequest(
  { connection, tenant, agentId }: CheckpointRequestParts,
  handler: () => void,
): Promise<Stop> {
  return connection.bus.subscribe(
    SUBJECTS.agentRequests(tenant, agentId, "checkpoint"),
    ({ subject, replyTo = "" }) => {
      if (answersCaller(subject, replyTo)) handler();
    },
  );
}

/** Agents do not answer, because they may write to no inbox of others; the event of their checkpoint is the answer. */
async function unanswered(
  { bus }: ClientConnection,
  subject: string,
  deadlineMs: number,
): Promise<RequestedCheckpoint> {
  try {
    await bus.request(subject, { body: new Uint8Array(0) }, { timeoutMs: deadlineMs });
  } catch (error) {
    if (!(error instanceof BusError)) throw error;
    if (error.kind !== "timeout") return { result: "absent", checkpointId: null };
  }
  return { result: "silent", checkpointId: null };
}
