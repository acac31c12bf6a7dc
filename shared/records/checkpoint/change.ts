/**
 * Changing a checkpoint that exists: what update, finalize and link share. The current version is read, verified and kept as an
 * earlier version; the next one is sealed and takes its place. A finalized checkpoint never changes (NFR-014).
 */
import { seal } from "../../integrity/seal.ts";
import type { Checkpoint, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Task, TaskEvent } from "../../protocol/task.ts";
import type { Tx } from "../../store/store.ts";
import type { Transition } from "../audit/audit.ts";
import type { EventFact } from "../outbox/outbox.ts";
import { isTakenBlocked } from "../recovery/blocks.ts";
import { raised } from "../recovery/recovery-transitions.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  complete,
  type Replay,
} from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { type Head, nextState, type Step } from "../task/transitions.ts";
import { writeRow } from "./body.ts";
import { decodePlace } from "./checkpoint-location.ts";
import { findAt } from "./lookup.ts";
import { writeOrder } from "./order.ts";
import type { Advice } from "./triggers.ts";

export interface Current {
  readonly begun: Begun;
  readonly head: Task;
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
  if (!found.sound) {
    throw new FleetError("CORRUPT", "the stored checkpoint does not verify", {
      details: { ...found.corrupt },
    });
  }
  const { metadata } = found.checkpoint;
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
  return { begun, head: begun.head, checkpoint: found.checkpoint, row: found.row };
}

export interface Change {
  /** The checkpoint as it shall be; version, time and log reference are set here. */
  readonly next: UnsealedCheckpoint;
  readonly op: Transition["op"];
  readonly event: EventFact;
  readonly taskEvent: TaskEvent | null;
  readonly facts?: NonNullable<Transition["facts"]>;
  readonly succeeded?: boolean;
  readonly advised?: Advice;
  /** What the command does besides, to the task as the change leaves it. */
  readonly besides?: (head: Head) => readonly Step[];
}

/** Seals and writes the next version, keeps the one before it, and completes the transition. */
export function change(tx: Tx, context: CommandContext, now: Current, change: Change): RememberedCheckpoint {
  const { begun, head } = now;
  const { task, tenant } = context.actor;
  const { checkpoint_id: id, version: before, seq } = now.checkpoint.metadata;
  const version = before + 1;
  const at = new Date(context.nowMs).toISOString();
  const next: UnsealedCheckpoint = {
    ...change.next,
    metadata: { ...change.next.metadata, version, committed_at: at },
    compliance: {
      ...unsealed(change.next.compliance),
      event_log_ref: `audit/${tenant}/${task}#${head.audit_seq + 1}`,
    },
  };
  // Finalising and linking must not fail for the few bytes that they add to a checkpoint of the largest size.
  const sealed = seal(next, change.op === "update" ? 0 : LIMITS.writer_bytes_max);
  tx.set(begun.keys.version(task, id, before), now.row);
  writeRow(tx, begun.keys, task, id, version, sealed);
  const fallback = next.recovery.last_successful_state ?? null;
  writeOrder(tx, begun.keys, task, seq, { id, fallback, version, hash: sealed.hash });

  const isLatest = head.latest_id === id;
  // Who has taken a blocked task and writes goes on with it.
  const taskEvent = change.taskEvent ?? (isTakenBlocked(head) ? "checkpoint" : null);
  const worked = raised({ ...head, state: nextState(head, taskEvent) }, next);
  const changed: Head = {
    ...worked,
    // One that is over waits for nobody.
    block: change.taskEvent === null ? worked.block : null,
    phase: isLatest ? next.execution_state.phase : head.phase,
    last_successful_id: change.succeeded ? id : head.last_successful_id,
    updated_at: at,
  };
  const transition: Step["transition"] = {
    op: change.op,
    checkpointId: id,
    version,
    oldHash: now.checkpoint.compliance.hash,
    newHash: sealed.hash,
    ...(change.facts && { facts: change.facts }),
  };
  return complete(tx, context, begun, {
    steps: [{ head: changed, transition, event: change.event }, ...(change.besides?.(changed) ?? [])],
    answer: {
      task_id: task,
      checkpoint_id: id,
      version,
      seq,
      hash: sealed.hash,
      committed_at: at,
      ...(sealed.bytes.length > LIMITS.checkpoint_bytes_warn && { warnings: ["large_checkpoint"] }),
      ...change.advised,
    },
  });
}

/** The seal belongs to one version; it is no part of the next one's content. */
function unsealed(compliance: UnsealedCheckpoint["compliance"]): UnsealedCheckpoint["compliance"] {
  const { hash: _hash, signature: _signature, ...rest } = compliance;
  return rest;
}
