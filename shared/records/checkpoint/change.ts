/**
 * The common part of update, finalize and link, the changes of an existing checkpoint. The current version is
 * read, verified and kept as an earlier version; the next version is sealed and replaces it. A finalized
 * checkpoint never changes (NFR-014).
 */
import { type Sealed, seal } from "../../integrity/seal.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { AuditFacts, CheckpointChange, EventFact } from "../../lifecycle/transition.ts";
import type { Checkpoint, FinalStatus, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Tx } from "../../store/store.ts";
import { writeReferences } from "../artifacts/references.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
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
import { decodePlace } from "./checkpoint-location.ts";
import { findAt, requireSound } from "./lookup.ts";
import { writeOrder } from "./order.ts";
import { floorMember, floorOf } from "./retention-floor.ts";
import type { Advice } from "./triggers.ts";

export interface Current {
  readonly begun: Begun;
  readonly head: TaskRecord;
  readonly checkpoint: Checkpoint;
  readonly row: Uint8Array;
}

/** Reads and verifies the checkpoint to change; throws NOT_FOUND, CORRUPT, FINALIZED or CONFLICT. */
export async function current(
  tx: Tx,
  context: CommandContext,
  id: string,
  expectedVersion: number | undefined,
): Promise<Current | Replay> {
  const { task } = context.actor;
  const begun = await begin(tx, context, (keys) => [keys.id(id)]);
  if ("replay" in begun) return begun;
  const [place] = begun.values;
  if (begun.head === null || place === undefined) {
    throw new FleetError("NOT_FOUND", "the task has no such checkpoint", {
      details: { checkpoint_id: id, task_id: task },
    });
  }
  if (decodePlace(place).task !== task) {
    throw new FleetError("NOT_FOUND", "the checkpoint belongs to another task", {
      details: { checkpoint_id: id, task_id: task },
    });
  }
  const found = await findAt(tx, begun.keys, id, decodePlace(place));
  const { checkpoint, row } = requireSound(found);
  const { metadata } = checkpoint;
  if (metadata.status === "finalized") {
    throw new FleetError("FINALIZED", "a finalized checkpoint never changes", {
      details: { checkpoint_id: id, final_status: metadata.final_status },
    });
  }
  if (expectedVersion !== undefined && expectedVersion !== metadata.version) {
    throw new FleetError("CONFLICT", "the checkpoint has another version than expected", {
      fields: [
        { path: "expected_version", expected: String(metadata.version), got: String(expectedVersion) },
      ],
      details: { actual: metadata.version },
    });
  }
  return { begun, head: begun.head, checkpoint, row };
}

export interface Change {
  /** The next version; its number, time and log reference are set here. */
  readonly next: UnsealedCheckpoint;
  readonly op: "update" | "finalize" | "link";
  readonly event: EventFact;
  readonly facts: AuditFacts;
  readonly finalStatus?: FinalStatus;
  readonly advised?: Advice;
}

/** Writes the next version and completes the command. */
export async function change(
  tx: Tx,
  context: CommandContext,
  now: Current,
  { next: wanted, op, event, facts, finalStatus, advised }: Change,
): Promise<RememberedCheckpoint> {
  const { begun, head: task } = now;
  // Finalize and link must not fail because of the few bytes that they add to a checkpoint of the largest
  // size.
  const allowance = op === "update" ? 0 : LIMITS.writer_bytes_max;
  const { next, sealed, change } = writeNextVersion(tx, context, begun.keys, now, {
    next: wanted,
    auditSeq: task.audit_seq + 1,
    allowance,
  });
  const handoff = await readOpenHandoff(tx, begun.keys, task);
  const input = {
    type: "change",
    commandId: context.commandId,
    op,
    change,
    next,
    event,
    facts,
    ...(finalStatus && { finalStatus }),
  } as const;
  const decision = decided(context, { task, handoff }, input);
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: {
      task_id: task.task_id,
      checkpoint_id: change.id,
      version: next.metadata.version,
      seq: next.metadata.seq,
      hash: sealed.hash,
      committed_at: decision.at,
      ...(sealed.bytes.length > LIMITS.checkpoint_bytes_warn && { warnings: ["large_checkpoint"] }),
      ...advised,
      ...(decision.transitions.some((made) => made.op === "handoff") && { handoff_id: context.commandId }),
    },
  });
}

interface NextVersion {
  readonly next: UnsealedCheckpoint;
  /** The number of the audit entry that records the version. */
  readonly auditSeq: number;
  /** The bytes allowed over the limit of a checkpoint. */
  readonly allowance: number;
}

/** What a new version needs of a command. */
export type VersionContext = Pick<CommandContext, "actor" | "nowMs" | "policies" | "newSalt">;

/** Seals and writes the next version of a checkpoint, and keeps the current one as an earlier version. */
export function writeNextVersion(
  tx: Tx,
  { actor, nowMs, policies, newSalt }: VersionContext,
  keys: TenantKeys,
  { checkpoint, row }: Pick<Current, "checkpoint" | "row">,
  { next: wanted, auditSeq, allowance }: NextVersion,
): { readonly next: UnsealedCheckpoint; readonly sealed: Sealed; readonly change: CheckpointChange } {
  const { tenant, task } = actor;
  const { checkpoint_id: id, version: before, seq } = checkpoint.metadata;
  const version = before + 1;
  const next: UnsealedCheckpoint = {
    ...wanted,
    metadata: { ...wanted.metadata, version, committed_at: new Date(nowMs).toISOString() },
    compliance: {
      ...unsealed(wanted.compliance),
      ...floorMember(floorOf({ actor, policies }, checkpoint.compliance)),
      event_log_ref: `audit/${tenant}/${task}#${auditSeq}`,
      salt: newSalt(),
    },
  };
  const sealed = seal(next, allowance);
  tx.set(keys.version(task, id, before), row);
  writeRow(tx, keys, task, id, version, sealed);
  writeReferences(tx, keys, next);
  const fallback = next.recovery.last_successful_state ?? null;
  const retention = next.compliance.retention_policy;
  writeOrder(tx, keys, task, seq, { id, fallback, version, hash: sealed.hash, retention });
  return { next, sealed, change: { id, version, oldHash: checkpoint.compliance.hash, newHash: sealed.hash } };
}

/** The next version was written here, also if this one was imported. */
function unsealed(compliance: UnsealedCheckpoint["compliance"]): UnsealedCheckpoint["compliance"] {
  const { hash: _hash, signature: _signature, imported_from: _origin, ...rest } = compliance;
  return rest;
}
