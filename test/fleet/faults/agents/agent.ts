/** One agent: it takes steps through the SDK one after the other, and records each call before and after it. */
import { uuidv7 } from "uuidv7";
import { hashOf } from "../../../../shared/integrity/seal.ts";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import type { CheckpointOutcome } from "../../../../shared/sdk/client/outcome.ts";
import {
  type CommittedFacts,
  type DoneLine,
  type HistorySink,
  instant,
  type Seen,
  type SeenVersion,
} from "./history.ts";
import {
  type AgentBehaviour,
  isWrite,
  type ReadStep,
  type WorkloadStep,
  type WriteStep,
} from "./workload.ts";

export interface AgentContext {
  readonly client: FleetClient;
  readonly behaviour: AgentBehaviour;
  readonly history: HistorySink;
  readonly nextCall: () => string;
  readonly random: () => number;
  /** The answer to a command as the bus delivered it. */
  readonly answerOf: (commandId: string) => CommittedFacts | undefined;
  readonly onDone: (op: string, outcome: string) => void;
  /** The time that each call waits. Default: a random one. */
  readonly deadlineMs?: number;
}

export type Ending = Omit<DoneLine, "line" | "call" | "at">;
const DEADLINE_MS = { least: 800, most: 6_000 };

/** The time that an agent waits for an answer: sometimes longer than a fault lasts, sometimes shorter. */
export const randomDeadline = (random: () => number): number =>
  DEADLINE_MS.least + random() * (DEADLINE_MS.most - DEADLINE_MS.least);

export async function takeStep(context: AgentContext, step: WorkloadStep): Promise<void> {
  const { client, history, nextCall, random, onDone } = context;
  const call = nextCall();
  const commandId = uuidv7();
  const { deadlineMs = randomDeadline(random) } = context;
  const handoff = handoffOf(step, commandId);
  await history.append({
    line: "call",
    call,
    at: instant(),
    op: step.op,
    agent: client.agentId,
    task: step.task,
    ...(isWrite(step) && { command_id: commandId }),
    ...("fence" in step && { fence: step.fence }),
    ...("expectedVersion" in step && { expected_version: step.expectedVersion }),
    ...(handoff !== undefined && { handoff }),
    ...(step.op === "get" && { checkpoint_id: step.id }),
    ...(step.op === "history" && { limit: step.limit }),
  });
  const ending = await (isWrite(step)
    ? write(context, step, { commandId, deadlineMs })
    : read(context, step, deadlineMs)
  ).catch(failure);
  await history.append({ line: "done", call, at: instant(), ...ending });
  if (ending.code === "FENCED") context.behaviour.wasFenced(step.task);
  onDone(step.op, ending.code === undefined ? ending.outcome : `${ending.outcome} ${ending.code}`);
}

/** The handoff of a step; a new handoff has the id of its command. */
function handoffOf(step: WorkloadStep, commandId: string): string | undefined {
  if (step.op === "cancel_handoff") return step.handoffId;
  const opens = step.op === "handoff" || (step.op === "create" && step.handoff !== undefined);
  return opens ? commandId : undefined;
}

/** Every error of Fleet except TIMEOUT guarantees that nothing was applied. Any other error guarantees nothing. */
export function failure(error: unknown): Ending {
  if (!isFleetError(error)) return { outcome: "unknown", code: String(error).slice(0, 200) };
  return { outcome: error.code === "TIMEOUT" ? "unknown" : "refused", code: error.code };
}

/** Also one of the SDK of another tree. */
const isFleetError = (error: unknown): error is FleetError =>
  error instanceof FleetError || (error instanceof Error && error.name === FleetError.name);

async function write(
  { client, behaviour, answerOf }: AgentContext,
  step: WriteStep,
  by: { readonly commandId: string; readonly deadlineMs: number },
): Promise<Ending> {
  const outcome = await send(client, step, by);
  if (outcome !== "committed") return { outcome };
  const committed = answerOf(by.commandId);
  if (committed === undefined) throw new Error("the SDK returned committed without such an answer");
  const { checkpoint_id: id, version, seq, fence, handoff } = committed;
  if (id !== null && version !== null && seq !== null) behaviour.saw(step.task, { id, version, seq });
  if (step.op === "take") behaviour.owns(step.task, fence ?? undefined);
  if (step.op === "release") behaviour.owns(step.task, undefined);
  if (handoff !== null) behaviour.handedOff(step.task, handoff);
  return { outcome, committed };
}

async function send(
  client: FleetClient,
  step: WriteStep,
  by: { readonly commandId: string; readonly deadlineMs: number },
): Promise<CheckpointOutcome["outcome"]> {
  const { task: taskId, fence } = step;
  const options = { ...by, taskId, fence };
  switch (step.op) {
    case "create": {
      const { checkpoint, expectedVersion, handoff } = step;
      return (await client.createCheckpoint({ ...options, expectedVersion, checkpoint, handoff })).outcome;
    }
    case "update": {
      const { id, patch, expectedVersion } = step;
      return (await client.updateCheckpoint(id, patch, { ...options, expectedVersion })).outcome;
    }
    case "finalize":
      return (await client.finalizeCheckpoint(step.id, step.status, options)).outcome;
    case "link":
      return (await client.linkCheckpoints(step.parent, step.child, options)).outcome;
    case "take":
      await client.takeTask(taskId, { ...by, expectedFence: step.expectedFence });
      return "committed";
    case "release":
      return client.releaseTask(taskId, { ...by, fence: step.fence });
    case "handoff":
      return (await client.initiateHandoff(null, { ...options, ...step.options })).outcome;
    case "cancel_handoff":
      await client.cancelHandoff(taskId, { ...options, handoffId: step.handoffId });
      return "committed";
  }
}

async function read(
  { client, behaviour }: AgentContext,
  step: ReadStep,
  deadlineMs: number,
): Promise<Ending> {
  const options = { deadlineMs };
  const found = (checkpoints: readonly (Checkpoint | null)[], removed: readonly string[] = []): Ending => {
    const versions = checkpoints.filter((one) => one !== null);
    for (const { metadata } of versions) {
      behaviour.saw(step.task, { id: metadata.checkpoint_id, version: metadata.version, seq: metadata.seq });
    }
    const seen = { versions: versions.map(seenVersion), ...(removed.length > 0 && { removed }) };
    return { outcome: "read", seen };
  };
  switch (step.op) {
    case "get":
      return client
        .getCheckpoint(step.id, options)
        .then((checkpoint) => found([checkpoint]))
        .catch((error: unknown) => {
          if (!isFleetError(error) || error.details.removed === undefined) throw error;
          return found([], [step.id]);
        });
    case "latest": {
      const { checkpoint, passed_over } = await client.latest(step.task, options);
      return passed_over.length > 0 ? { outcome: "refused", code: "CORRUPT" } : found([checkpoint]);
    }
    case "history": {
      const {
        checkpoints,
        corrupt,
        removed = [],
      } = await client.getCheckpointHistory(step.task, { ...options, limit: step.limit });
      if (corrupt.length > 0) return { outcome: "refused", code: "CORRUPT" };
      return found(
        checkpoints,
        removed.map(({ checkpoint_id }) => checkpoint_id),
      );
    }
    case "task": {
      const head = await client.getTask(step.task, options);
      const seen: Seen = {
        head: head && { audit_seq: head.audit_seq, audit_hash: head.audit_hash, fence: head.fence },
      };
      return { outcome: "read", seen };
    }
  }
}

/** Identifies a served version by its content: the hash is computed again. */
function seenVersion(checkpoint: Checkpoint): SeenVersion {
  const { metadata, compliance } = checkpoint;
  return {
    checkpoint_id: metadata.checkpoint_id,
    version: metadata.version,
    hash: hashOf(checkpoint),
    // `audit/<tenant>/<task>#<number of the entry>`
    entry: Number(compliance.event_log_ref.split("#").at(-1)),
  };
}
