/**
 * link_checkpoints: a further parent for a checkpoint of the same task. A parent must precede its child in
 * the task's order, so a cycle is impossible, and no search for one is needed. Seed 000 FR-002.
 */
import type { LinkCommand } from "../../protocol/commands.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Tx } from "../../store/store.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { type Current, change, current } from "./change.ts";
import { requireInTask } from "./create.ts";
import { findInTask, removedError } from "./lookup.ts";

export async function linkCheckpoints(
  tx: Tx,
  context: CommandContext,
  command: LinkCommand,
): Promise<RememberedCheckpoint | Replay> {
  const { parent_id: parent, child_id: child } = command;
  if (parent === child) throw invalid("parent_id", "another checkpoint than child_id", parent);
  const now = await current(tx, context, child, command.expected_version);
  if ("replay" in now) return now;
  const { task } = context.actor;
  const { metadata } = now.checkpoint;
  if (metadata.parent_ids.includes(parent)) {
    throw new FleetError("CONFLICT", "the checkpoint has this parent already", {
      details: { parent_id: parent, child_id: child },
    });
  }
  await requireOlder(tx, context, now, parent);
  const parents = [...metadata.parent_ids, parent];
  if (parents.length > LIMITS.parent_count_max) {
    throw invalid("parent_id", `at most ${LIMITS.parent_count_max} parents`, parents.length);
  }
  tx.set(now.begun.keys.child(task, parent, child), new Uint8Array(0));
  return change(tx, context, now, {
    next: { ...now.checkpoint, metadata: { ...metadata, parent_ids: parents } },
    op: "link",
    event: { type: "CHECKPOINT_UPDATED", data: { checkpointId: child, fields: ["metadata.parent_ids"] } },
    facts: { parent_id: parent },
  });
}

async function requireOlder(tx: Tx, context: CommandContext, now: Current, parent: string): Promise<void> {
  const { task } = context.actor;
  const { keys } = now.begun;
  await requireInTask(tx, keys, task, new Map([[parent, "parent_id"]]), "");
  const found = await findInTask(tx, keys, task, parent);
  if (!found.sound) {
    if (found.removed !== undefined) throw removedError(found.removed);
    throw new FleetError("CORRUPT", "the stored parent does not verify", { details: { ...found.corrupt } });
  }
  if (found.checkpoint.metadata.seq > now.checkpoint.metadata.seq) {
    throw invalid(
      "parent_id",
      "a checkpoint committed before the child; a later one would make a cycle",
      parent,
    );
  }
}
