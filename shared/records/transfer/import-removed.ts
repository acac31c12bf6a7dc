/**
 * A checkpoint that retention removed in the origin of an imported task. Its tombstone stands at its position, as the removal left it there,
 * so later checkpoints may name it, and a read of it says what happened.
 */
import type { ImportRemovedCommand } from "../../protocol/commands.ts";
import { invalid } from "../../protocol/errors.ts";
import type { Tx } from "../../store/store.ts";
import { decodePlace, writePlace } from "../checkpoint/checkpoint-location.ts";
import { requireInTask } from "../checkpoint/create.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { writeTombstone } from "../retention/tombstone.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { requireImporting, requireNewId } from "./importing-task.ts";

export async function importRemoved(
  tx: Tx,
  context: CommandContext,
  { index, removed }: ImportRemovedCommand,
): Promise<RememberedCheckpoint | Replay> {
  const { task } = context.actor;
  const { checkpoint_id: id, seq, version, hash, fallback_id: fallback } = removed;
  const begun = await begin(tx, context, (keys) => [keys.id(id)]);
  if ("replay" in begun) return begun;
  const { keys, values } = begun;
  const head = requireImporting(begun.head, task);
  const [place] = values;
  requireNewId(id, place === undefined ? undefined : decodePlace(place));
  if (seq !== head.seq + 1) throw invalid("removed.seq", String(head.seq + 1), seq);
  if (fallback !== null)
    await requireInTask(tx, keys, task, new Map([[fallback, "fallback_id"]]), "removed.");
  const decision = decided(
    context,
    { task: head, handoff: null },
    { type: "import_removed", index, removed },
  );
  const { reason, retention_policy: policy, removed_at: removedAt, removed_by: by } = removed;
  writeTombstone(tx, keys, task, seq, {
    ...{ id, fallback, version, hash, reason, policy, removedAt, by },
    auditSeq: decision.task.audit_seq,
  });
  writePlace(tx, keys, id, { task, seq });
  tx.addI64(systemKeys.count("checkpoints"), 1n);
  tx.addI64(systemKeys.count("removed"), 1n);
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: { task_id: task, checkpoint_id: id, version, seq, hash, committed_at: decision.at },
  });
}
