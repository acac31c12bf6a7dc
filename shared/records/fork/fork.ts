/**
 * fork: a new task whose first checkpoint has the state of a checkpoint of another task. One transaction writes
 * the checkpoint, the entry of the new task and an entry of the source. The source's owner, fence and last
 * activity stay as they are, so a fork needs no fence and is possible in every state of the source.
 *
 * The new checkpoint has its own hash and no parents: the new task is sound without its source. So `latest`
 * never falls back to another task; a damaged first checkpoint is CORRUPT, and its origin can be forked again.
 */

import { seal } from "../../integrity/seal.ts";
import { annotate } from "../../lifecycle/decision.ts";
import { refuseShredding } from "../../lifecycle/retention/shred.ts";
import { isShredding } from "../../lifecycle/retention/shred-rules.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { Checkpoint, ForkedFrom, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import type { ForkCommand } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { workPhaseOf } from "../../protocol/work-phase.ts";
import type { Tx } from "../../store/store.ts";
import { requireArtifacts } from "../artifacts/references.ts";
import { principalActor } from "../audit/audit.ts";
import { shortPolicyVersion } from "../audit/policy-version.ts";
import { requireNew, withoutOutcome, withoutWriterFields, writeFirstVersion } from "../checkpoint/create.ts";
import { findLatest, removedError, soundInTask } from "../checkpoint/lookup.ts";
import { floorMember, floorOf } from "../checkpoint/retention-floor.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import {
  begin,
  type CommandContext,
  complete,
  decided,
  type Replay,
  readNewestHead,
} from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { writeTransitions } from "../task/transitions.ts";

/** `onCorrupt` gets the corrupt checkpoints of the source that the command has passed over. */
export async function forkTask(
  tx: Tx,
  context: CommandContext,
  command: ForkCommand,
  onCorrupt: (found: readonly CorruptCheckpoint[]) => void,
): Promise<RememberedCheckpoint | Replay> {
  const { command_id: id, source_task_id: sourceTask } = command;
  // Without this a task that an agent owns would be refused as FENCED, and no fence would help.
  const begun = await begin(tx, context, (keys) => [keys.id(id)], { supersedes: true });
  if ("replay" in begun) return begun;
  requireNew(begun);
  requireNoTask(begun.head);
  const head = await readNewestHead(tx, begun.keys, sourceTask);
  if (head === null) {
    throw new FleetError("NOT_FOUND", "there is no such task", { details: { task_id: sourceTask } });
  }
  if (isShredding(head)) throw refuseShredding(head).error;
  const source = await sourceOf(tx, begun.keys, context, command, onCorrupt);
  const origin: ForkedFrom = {
    task_id: sourceTask,
    checkpoint_id: source.metadata.checkpoint_id,
    version: source.metadata.version,
    hash: source.compliance.hash,
    entry: head.audit_seq + 1,
  };
  const checkpoint = forkedCheckpoint(context, command, source, origin);
  await requireArtifacts(tx, begun.keys, checkpoint.artifacts, "checkpoint.artifacts");
  // A fork of a checkpoint of the largest size must not fail because of the bytes that name its origin.
  const sealed = seal(checkpoint, LIMITS.writer_bytes_max);
  writeFirstVersion(tx, begun, checkpoint, sealed, null);
  const written = { checkpoint, hash: sealed.hash, options: undefined, fence: context.fence };
  const decision = decided(context, { task: null, handoff: null }, { type: "create", ...written });
  noteInSource(tx, begun.keys, context, head, origin);
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: {
      task_id: context.actor.task,
      checkpoint_id: id,
      version: 1,
      seq: 1,
      hash: sealed.hash,
      committed_at: decision.at,
      ...(sealed.bytes.length > LIMITS.checkpoint_bytes_warn && { warnings: ["large_checkpoint"] }),
      forked_from: origin,
    },
  });
}

function requireNoTask(head: TaskRecord | null): void {
  if (head === null) return;
  throw new FleetError("CONFLICT", "the task exists; a fork begins a new task", {
    details: { task_id: head.task_id, latest_id: head.latest_id },
  });
}

/** The checkpoint to copy. Throws NOT_FOUND, and CORRUPT with the task of the damage. */
async function sourceOf(
  tx: Tx,
  keys: TenantKeys,
  { actor: { tenant } }: CommandContext,
  { source_task_id: task, source_checkpoint_id: named }: ForkCommand,
  onCorrupt: (found: readonly CorruptCheckpoint[]) => void,
): Promise<Checkpoint> {
  try {
    if (named !== undefined) return await soundInTask(tx, keys, task, named);
    const { checkpoint, passed_over, removed } = await findLatest(tx, tenant, task);
    onCorrupt(passed_over);
    if (checkpoint !== null) return checkpoint;
    if (removed !== undefined) throw removedError(removed);
  } catch (error) {
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") throw error;
    const { corrupt = [error.details] } = error.details;
    onCorrupt(corrupt as CorruptCheckpoint[]);
    throw new FleetError("CORRUPT", error.message, { details: { ...error.details, task_id: task } });
  }
  throw new FleetError("NOT_FOUND", "the task has no checkpoint to fork", { details: { task_id: task } });
}

/**
 * The state of the source without the facts of its task and agent alone: its metrics, its place in the chain,
 * its outcome, and the locks and messages of its mission.
 */
function forkedCheckpoint(
  { actor, policies, nowMs, newSalt }: CommandContext,
  { command_id, agent_type, goal, note }: ForkCommand,
  { metadata, compliance, fleet: _mission, execution_state: work, recovery, ...sections }: Checkpoint,
  origin: ForkedFrom,
): UnsealedCheckpoint {
  const { tenant, task, agent } = actor;
  const at = new Date(nowMs).toISOString();
  const { handoff_triggers: _fired, session_id: _session, ...kept } = withoutOutcome(metadata);
  return {
    ...sections,
    execution_state: {
      ...work,
      phase: workPhaseOf({ execution_state: work }),
      ...(goal !== undefined && { goal }),
    },
    metrics: { tokens_consumed: 0, tools_invoked: 0, files_modified: [] },
    recovery: forkedRecovery(recovery, metadata.agent_id),
    metadata: {
      ...kept,
      checkpoint_id: command_id,
      tenant,
      task_id: task,
      agent_id: agent,
      agent_type: agent_type ?? metadata.agent_type,
      iteration: 1,
      timestamp: at,
      trigger: { reason: "manual", details: note ?? `forked from ${origin.task_id}` },
      parent_ids: [],
      forked_from: origin,
      status: "draft",
      version: 1,
      seq: 1,
      committed_at: at,
    },
    compliance: {
      ...withoutWriterFields(compliance),
      ...floorMember(floorOf({ actor, policies }, {})),
      event_log_ref: `audit/${tenant}/${task}#1`,
      salt: newSalt(),
    },
  };
}

/** The author of the source has worked on the fork too. The checkpoints that the source names are not in this task. */
function forkedRecovery(
  {
    last_successful_state: _state,
    resumed_from: _resumed,
    previous_agents = [],
    ...rest
  }: Checkpoint["recovery"],
  author: string,
): Checkpoint["recovery"] {
  const agents = [...previous_agents.filter((id) => id !== author), author];
  return { ...rest, previous_agents: agents.slice(-LIMITS.parent_count_max) };
}

function noteInSource(
  tx: Tx,
  keys: TenantKeys,
  { actor, commandId, policies, nowMs, incarnation, traceparent }: CommandContext,
  head: TaskRecord,
  { task_id: taskId, checkpoint_id: checkpointId, version, hash }: ForkedFrom,
): void {
  const { tenant, task: forkTaskId, agent } = actor;
  const transitions = annotate(head, agent, nowMs, "fork", {
    checkpoint: { id: checkpointId, version, oldHash: null, newHash: null },
    facts: { source_hash: hash, fork_task: forkTaskId, fork_checkpoint: commandId },
    event: {
      type: "TASK_FORKED",
      data: { taskId, checkpointId, agentId: agent, forkTaskId, forkCheckpointId: commandId },
    },
  });
  const author = {
    tenant,
    task: taskId,
    actor: principalActor(agent),
    policy: shortPolicyVersion(policies),
    commandId,
    nowMs,
    incarnation,
    traceparent,
  };
  writeTransitions(tx, keys, author, head, transitions);
}
