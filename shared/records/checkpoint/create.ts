/**
 * create_checkpoint: a new checkpoint at the end of its task's order, linked to its parents. Seed 000 FR-002,
 * step 2.1.
 */
import { newSalt, type Sealed, seal } from "../../integrity/seal.ts";
import { isNextAgent } from "../../lifecycle/checkpoints.ts";
import type { Decision } from "../../lifecycle/decision.ts";
import type { UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import type { CreateCommand } from "../../protocol/commands.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import { withoutSignatures } from "../../protocol/esign.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { migrate, requireSupported } from "../../protocol/migrations.ts";
import { policyOf } from "../../protocol/policy.ts";
import { DEFAULT_RETENTION } from "../../protocol/retention.ts";
import type { Tx } from "../../store/store.ts";
import { requireArtifacts, writeReferences } from "../artifacts/references.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import { systemKeys, type TenantKeys } from "../kv/keyspace.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  complete,
  decided,
  type Replay,
} from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { writeRow } from "./body.ts";
import { decodePlace, writePlace } from "./checkpoint-location.ts";
import { finalizeDraft } from "./finalize.ts";
import { requireLastSuccessful } from "./last-successful-state.ts";
import { writeOrder } from "./order.ts";
import { floorMember, floorOf } from "./retention-floor.ts";
import { advisedBy, withTriggers } from "./triggers.ts";

export async function createCheckpoint(
  tx: Tx,
  context: CommandContext,
  command: CreateCommand,
): Promise<RememberedCheckpoint | Replay> {
  const id = command.command_id;
  const begun = await begin(tx, context, (keys) => [keys.id(id)]);
  if ("replay" in begun) return begun;
  requireNew(begun);
  requireIdentity(context, command);
  requireExpected(begun, command.expected_version);
  const open = await readOpenHandoff(tx, begun.keys, begun.head);
  const { checkpoint, sealed } = await appendCheckpoint(tx, context, begun, open, command);
  const written = { checkpoint, hash: sealed.hash, options: command.handoff, fence: context.fence };
  const decision = decided(context, { task: begun.head, handoff: open }, { type: "create", ...written });
  await finalizeHandedOver(tx, context, begun.keys, decision, open);
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: {
      ...versionAnswer(checkpoint, sealed),
      ...advisedBy(checkpoint),
      ...(checkpoint.execution_state.phase === "handoff" && { handoff_id: id }),
    },
  });
}

interface NewVersion {
  readonly checkpoint: UnsealedCheckpoint;
  readonly sealed: Sealed;
}

/** Writes the rows of a new checkpoint after the head of `begun`. Its transition follows as the next of its task. */
export async function appendCheckpoint(
  tx: Tx,
  context: CommandContext,
  begun: Pick<Begun, "keys" | "head">,
  open: Handoff | null,
  command: Pick<CreateCommand, "command_id" | "checkpoint">,
): Promise<NewVersion> {
  await requireArtifacts(tx, begun.keys, command.checkpoint.artifacts, "checkpoint.artifacts");
  const links = await linksOf(tx, context, begun, command, open);
  const retention = retentionOf(context, command, begun);
  const floor = floorOf(context, {});
  const composition = composed(context, command, begun, { ...links, retention, floor });
  const checkpoint = withTriggers(composition, context.policies);
  const sealed = seal(checkpoint);
  writeFirstVersion(tx, begun, checkpoint, sealed, links.fallback);
  return { checkpoint, sealed };
}

/** Finalizes the checkpoint of the handoff that the new checkpoint confirmed. */
export async function finalizeHandedOver(
  tx: Tx,
  context: CommandContext,
  keys: TenantKeys,
  decision: Decision,
  open: Handoff | null,
): Promise<void> {
  if (open === null || !decision.transitions.some(({ op }) => op === "confirm")) return;
  const handedOver = { id: open.checkpoint_id, status: "handed_off" } as const;
  await finalizeDraft(tx, context, keys, decision, handedOver);
}

/** The members of an answer that name the version. */
export function versionAnswer(
  { metadata }: UnsealedCheckpoint,
  { hash, bytes }: Sealed,
): RememberedCheckpoint {
  return {
    task_id: metadata.task_id,
    checkpoint_id: metadata.checkpoint_id,
    version: metadata.version,
    seq: metadata.seq,
    hash,
    committed_at: metadata.committed_at,
    ...(bytes.length > LIMITS.checkpoint_bytes_warn && { warnings: ["large_checkpoint"] }),
  };
}

/**
 * The checks that need no store, for a queued command: it is applied when its caller no longer waits for the
 * answer.
 */
export function checkNewCheckpoint(
  context: Pick<CommandContext, "actor" | "nowMs">,
  command: CreateCommand,
): void {
  requireIdentity(context, command);
  const { metadata, recovery } = command.checkpoint;
  const fallback = recovery.last_successful_state ?? null;
  // The seq and the parents add some bytes that are not known yet.
  const links = {
    parents: metadata.parent_ids ?? [],
    fallback,
    retention: DEFAULT_RETENTION,
    floor: DEFAULT_RETENTION,
  };
  seal(composed({ ...context, newSalt }, command, { head: null }, links));
}

/** Writes the records of a new checkpoint: its row, its location, its place in the order, its links and its references to artifacts. */
export function writeFirstVersion(
  tx: Tx,
  { keys, head }: Pick<Begun, "keys" | "head">,
  checkpoint: UnsealedCheckpoint,
  sealed: Sealed,
  fallback: string | null,
): void {
  const { metadata, compliance } = checkpoint;
  const { checkpoint_id: id, task_id: task, seq, parent_ids } = metadata;
  writeRow(tx, keys, task, id, 1, sealed);
  writePlace(tx, keys, id, { task, seq });
  writeOrder(tx, keys, task, seq, {
    ...{ id, fallback, version: 1, hash: sealed.hash },
    retention: compliance.retention_policy,
  });
  for (const parent of parent_ids) tx.set(keys.child(task, parent, id), new Uint8Array(0));
  writeReferences(tx, keys, checkpoint);
  tx.addI64(systemKeys.count("checkpoints"), 1n);
  if (head === null) tx.addI64(systemKeys.count("tasks"), 1n);
}

export function requireNew({ values }: Begun): void {
  if (values[0] === undefined) return;
  throw new FleetError("CONFLICT", "a checkpoint with this id exists", {
    fields: [{ path: "command_id", expected: "a new UUIDv7 for a new checkpoint" }],
  });
}

/**
 * The subject names the agent, the task and the tenant; a body that contradicts it is a mistake worth naming.
 */
function requireIdentity({ actor }: Pick<CommandContext, "actor">, command: CreateCommand): void {
  const { metadata, schema_version } = command.checkpoint;
  requireSupported(schema_version);
  const expected = {
    checkpoint_id: command.command_id,
    tenant: actor.tenant,
    task_id: actor.task,
    agent_id: actor.agent,
  };
  for (const [field, value] of Object.entries(expected)) {
    const given = metadata[field];
    if (given !== undefined && given !== value) {
      throw invalid(`checkpoint.metadata.${field}`, `${value}, as in the subject and the command`, given);
    }
  }
}

function requireExpected(begun: Begun, expected: number | undefined): void {
  const actual = begun.head?.seq ?? 0;
  if (expected !== undefined && expected !== actual) {
    throw new FleetError("CONFLICT", "the task has another number of checkpoints than expected", {
      fields: [{ path: "expected_version", expected: String(actual), got: String(expected) }],
      details: { actual, latest_id: begun.head?.latest_id ?? null },
    });
  }
}

/** The retention policy of a checkpoint that names none: that of its task, or else of the settings. */
function retentionOf(
  { policies, actor }: CommandContext,
  { checkpoint }: Pick<CreateCommand, "checkpoint">,
  { head }: Pick<Begun, "head">,
): string {
  const settings = policyOf(policies, actor.tenant, checkpoint.metadata.agent_type).retention;
  return head?.retention?.policy ?? settings.class;
}

interface Links {
  readonly parents: readonly string[];
  /** The checkpoint that `latest` falls back to when this one is corrupt. */
  readonly fallback: string | null;
}

/**
 * Parents default to the task's latest checkpoint. The next agent of a handoff gets the checkpoint of the
 * handoff instead: after a recovery, newer ones may be corrupt. Named parents must be of this task.
 */
async function linksOf(
  tx: Tx,
  context: CommandContext,
  begun: Pick<Begun, "keys" | "head">,
  command: Pick<CreateCommand, "checkpoint">,
  open: Handoff | null,
): Promise<Links> {
  const { metadata, recovery } = command.checkpoint;
  const latest =
    open !== null && isNextAgent(open, { agent: context.actor.agent, fence: context.fence })
      ? open.checkpoint_id
      : (begun.head?.latest_id ?? null);
  const parents = [...new Set(metadata.parent_ids ?? (latest === null ? [] : [latest]))];
  const named = new Map<string, string>();
  for (const [i, id] of (metadata.parent_ids ?? []).entries()) named.set(id, `metadata.parent_ids.${i}`);
  if (recovery.last_successful_state !== undefined) {
    named.set(recovery.last_successful_state, "recovery.last_successful_state");
  }
  const { task } = context.actor;
  await requireInTask(tx, begun.keys, task, named);
  if (recovery.last_successful_state !== undefined) {
    await requireLastSuccessful(tx, begun.keys, task, {
      id: recovery.last_successful_state,
      path: "checkpoint.recovery.last_successful_state",
      seq: (begun.head?.seq ?? 0) + 1,
    });
  }
  return { parents, fallback: recovery.last_successful_state ?? latest };
}

/**
 * Throws INVALID unless every named checkpoint exists in the task; `named` maps each to the field that names
 * it.
 */
export async function requireInTask(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  named: ReadonlyMap<string, string>,
  root = "checkpoint.",
): Promise<void> {
  if (named.size === 0) return;
  const owners = await tx.getMany([...named.keys()].map((id) => keys.id(id)));
  const fields = [...named].flatMap(([id, path], i) => {
    const owner = owners[i];
    const ownTask = owner && decodePlace(owner).task;
    return ownTask === task
      ? []
      : [
          {
            path: `${root}${path}`,
            expected: "a checkpoint of the same task",
            got: ownTask === undefined ? `${id}, which does not exist` : `${id}, of another task`,
          },
        ];
  });
  if (fields.length > 0) throw new FleetError("INVALID", "the input is not valid", { fields });
}

/** `retention` is the policy of a checkpoint that names none. A shorter one than the floor is kept, because agents do not know the floor. */
function composed(
  context: Pick<CommandContext, "actor" | "nowMs" | "newSalt">,
  command: Pick<CreateCommand, "command_id" | "checkpoint">,
  begun: Pick<Begun, "head">,
  { retention, floor, ...links }: Links & { readonly retention: string; readonly floor: string },
): UnsealedCheckpoint {
  // A checkpoint that was read and is written again may have the signatures of the old one beside it.
  const checkpoint = withoutSignatures(migrate(command.checkpoint));
  const { tenant, task, agent } = context.actor;
  const committedAt = new Date(context.nowMs).toISOString();
  return {
    ...checkpoint,
    metadata: {
      ...withoutOutcome(checkpoint.metadata),
      checkpoint_id: command.command_id,
      tenant,
      task_id: task,
      agent_id: agent,
      timestamp: checkpoint.metadata.timestamp ?? committedAt,
      parent_ids: [...links.parents],
      status: "draft",
      version: 1,
      seq: (begun.head?.seq ?? 0) + 1,
      committed_at: committedAt,
    },
    recovery: {
      ...checkpoint.recovery,
      ...(links.fallback !== null && { last_successful_state: links.fallback }),
    },
    compliance: {
      ...withoutWriterFields(checkpoint.compliance ?? {}),
      retention_policy: checkpoint.compliance?.retention_policy ?? retention,
      ...floorMember(floor),
      event_log_ref: `audit/${tenant}/${task}#${(begun.head?.audit_seq ?? 0) + 1}`,
      salt: context.newSalt(),
    },
  };
}

/** A checkpoint that was read and is written again may have the outcome and the origin of the old one. */
export function withoutOutcome<T extends Record<string, unknown>>(metadata: T): T {
  const { final_status: _status, forked_from: _origin, ...rest } = metadata;
  return rest as T;
}

/**
 * A checkpoint that was read, changed and is written again still has the seal of the old one; the new one
 * gets its own.
 */
export function withoutWriterFields<T extends Record<string, unknown>>(compliance: T): T {
  const {
    hash: _hash,
    signature: _signature,
    retain_until: _until,
    retention_floor: _floor,
    event_log_ref: _ref,
    imported_from: _origin,
    salt: _salt,
    ...rest
  } = compliance;
  return rest as T;
}
