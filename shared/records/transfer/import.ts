/**
 * The commands of an import, each one transaction: the task begins, its versions follow one by one, and it ends. A crash in between leaves a
 * task that accepts nothing but the rest of its import, and its origin says how far it is.
 */
import { canonicalText, sha256Hex } from "../../integrity/canonical.ts";
import { importedFrom, restoresOrigin } from "../../integrity/origin.ts";
import { seal } from "../../integrity/seal.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import { type UnsealedCheckpoint, unsealedCheckpointSchema } from "../../protocol/checkpoint.ts";
import type { ImportBeginCommand, ImportEndCommand, ImportVersionCommand } from "../../protocol/commands.ts";
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { requireSupported } from "../../protocol/migrations.ts";
import { validate } from "../../protocol/validation.ts";
import type { Tx } from "../../store/store.ts";
import { requireArtifacts, writeReferences } from "../artifacts/references.ts";
import { writeRow } from "../checkpoint/body.ts";
import { decodePlace, type Place, writePlace } from "../checkpoint/checkpoint-location.ts";
import { requireInTask } from "../checkpoint/create.ts";
import { placeOf, soundInTask } from "../checkpoint/lookup.ts";
import { decodeOrder, writeOrder } from "../checkpoint/order.ts";
import { systemKeys, type TenantKeys } from "../kv/keyspace.ts";
import { readRemoved } from "../retention/tombstone.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import type { RememberedCheckpoint, RememberedOwnership } from "../task/idempotency.ts";
import { openImportedMission } from "./import-records.ts";
import { type ImportingTask, requireImporting, requireNewId } from "./importing-task.ts";
import { placedIn } from "./restored-version.ts";

/** Throws CONFLICT for a task that exists. */
export async function beginImport(
  tx: Tx,
  context: CommandContext,
  { origin }: ImportBeginCommand,
): Promise<RememberedOwnership | Replay> {
  // A task that exists is refused as a conflict, even if it has an owner.
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const decision = decided(context, { task: begun.head, handoff: null }, { type: "import_begin", origin });
  tx.addI64(systemKeys.count("tasks"), 1n);
  const { task_id, owner, fence } = decision.task;
  const answer = { task_id, owner, fence, committed_at: decision.at };
  return complete(tx, context, begun, { transitions: decision.transitions, answer });
}

/** The checks that need no store. Throws INVALID. */
export function checkImportedVersion({ checkpoint, hash }: ImportVersionCommand): UnsealedCheckpoint {
  requireSupported(String(checkpoint.schema_version));
  const valid = validate(unsealedCheckpointSchema, checkpoint, "checkpoint");
  // What was stored has no short forms: the stored bytes would be read without them.
  const given = checkpoint as unknown as UnsealedCheckpoint;
  if (given.execution_state.phase !== valid.execution_state.phase)
    throw invalid(
      "checkpoint.execution_state.phase",
      valid.execution_state.phase,
      given.execution_state.phase,
    );
  if (given.metadata.trigger?.reason !== valid.metadata.trigger.reason)
    throw invalid("checkpoint.metadata.trigger.reason", valid.metadata.trigger.reason);
  for (const name of ["hash", "signature"] as const) {
    if (given.compliance[name] !== undefined) throw invalid(`checkpoint.compliance.${name}`, "absent");
  }
  if (sha256Hex(canonicalText(given)) !== hash) throw invalid("hash", "the hash of the checkpoint", hash);
  if (!restoresOrigin(given))
    throw invalid("checkpoint.compliance.imported_from", "the origin from which its hash follows");
  return given;
}

export async function importVersion(
  tx: Tx,
  context: CommandContext,
  command: ImportVersionCommand,
): Promise<RememberedCheckpoint | Replay> {
  const stored = checkImportedVersion(command);
  const { checkpoint_id: id } = stored.metadata;
  const { task, tenant } = context.actor;
  const begun = await begin(tx, context, (keys) => [
    keys.id(id),
    keys.order(task, stored.metadata.seq),
    keys.checkpoint(task, id),
  ]);
  if ("replay" in begun) return begun;
  const { keys, values } = begun;
  const head = requireImporting(begun.head, task);
  requireOfTask(stored, head);
  const { checkpoint: given, replaced } = await placedIn(tx, keys, head, stored);
  const { version, seq } = given.metadata;
  const [place, order, row] = values;
  const earlier = replaced === undefined ? decodeOrder(order) : null;
  requireNext(given, head, { place: place && decodePlace(place), version: earlier?.version ?? 0 });
  await requireReferences(tx, keys, given);
  await requireArtifacts(tx, keys, given.artifacts, "checkpoint.artifacts");
  const eventLogRef = `audit/${tenant}/${task}#${head.audit_seq + 1}`;
  const { fleet } = head.origin;
  const checkpoint = importedFrom(
    given,
    { fleet, hash: command.hash, ...(replaced && { replaced }) },
    { tenant, eventLogRef },
  );
  const sealed = seal(checkpoint, 2 * LIMITS.writer_bytes_max);
  if (version > 1 && row !== undefined) tx.set(keys.version(task, id, version - 1), row);
  writeRow(tx, keys, task, id, version, sealed);
  writeReferences(tx, keys, checkpoint);
  const fallback = checkpoint.recovery.last_successful_state ?? null;
  const retention = checkpoint.compliance.retention_policy;
  writeOrder(tx, keys, task, seq, { id, fallback, version, hash: sealed.hash, retention });
  // A removal clears the links from a parent.
  const removed = await readRemoved(tx, keys, given.metadata.parent_ids);
  for (const parent of given.metadata.parent_ids)
    if (!removed.has(parent)) tx.set(keys.child(task, parent, id), new Uint8Array(0));
  if (version === 1) {
    writePlace(tx, keys, id, { task, seq });
    tx.addI64(systemKeys.count("checkpoints"), 1n);
  }
  const decision = decided(
    context,
    { task: head, handoff: null },
    {
      type: "import_version",
      index: command.index,
      checkpoint,
      change: { id, version, oldHash: earlier?.hash ?? null, newHash: sealed.hash },
      originHash: command.hash,
    },
  );
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: { task_id: task, checkpoint_id: id, version, seq, hash: sealed.hash, committed_at: decision.at },
  });
}

export async function endImport(
  tx: Tx,
  context: CommandContext,
  { state, last_successful_id: lastSuccessfulId }: ImportEndCommand,
): Promise<RememberedOwnership | Replay> {
  const begun = await begin(tx, context, () => []);
  if ("replay" in begun) return begun;
  const head = requireImporting(begun.head, context.actor.task);
  // Before the records are compared: they may not be complete.
  decided(
    context,
    { task: head, handoff: null },
    { type: "import_end", state, lastSuccessfulId, records: [] },
  );
  const isMission = (head.origin.records ?? 0) > 0;
  const records = isMission ? await openImportedMission(tx, begun.keys, head, context) : [];
  const input = { type: "import_end", state, lastSuccessfulId, records } as const;
  const decision = decided(context, { task: head, handoff: null }, input);
  // Nothing but the trail of the origin is left of a removed one.
  if (lastSuccessfulId !== null && !(await isRemovedIn(tx, begun.keys, head.task_id, lastSuccessfulId))) {
    const { metadata } = await soundInTask(tx, begun.keys, context.actor.task, lastSuccessfulId);
    if (metadata.final_status !== "succeeded")
      throw invalid("last_successful_id", "a checkpoint finalized as succeeded", lastSuccessfulId);
  }
  const { task_id, owner, fence } = decision.task;
  const answer = { task_id, owner, fence, committed_at: decision.at };
  return complete(tx, context, begun, { transitions: decision.transitions, answer });
}

async function isRemovedIn(tx: Tx, keys: TenantKeys, task: string, id: string): Promise<boolean> {
  const [place, removed] = [await placeOf(tx, keys, id), await readRemoved(tx, keys, [id])];
  return place?.task === task && removed.has(id);
}

function requireOfTask(
  { metadata, compliance }: UnsealedCheckpoint,
  { task_id, origin }: ImportingTask,
): void {
  const { tenant } = origin;
  if (metadata.task_id !== task_id) throw invalid("checkpoint.metadata.task_id", task_id, metadata.task_id);
  if (metadata.tenant !== tenant) throw invalid("checkpoint.metadata.tenant", tenant, metadata.tenant);
  const trail = `audit/${tenant}/${task_id}#`;
  if (!compliance.event_log_ref.startsWith(trail))
    throw invalid("checkpoint.compliance.event_log_ref", `${trail}…`, compliance.event_log_ref);
}

/** The next version of the newest checkpoint, or the first version of a new one at the next position. */
function requireNext(
  { metadata }: UnsealedCheckpoint,
  head: TaskRecord,
  stored: { readonly place: Place | undefined; readonly version: number },
): void {
  const { checkpoint_id: id, seq, version } = metadata;
  const { place } = stored;
  if (version === 1) {
    requireNewId(id, place);
    if (seq !== head.seq + 1) throw invalid("checkpoint.metadata.seq", String(head.seq + 1), seq);
    return;
  }
  if (place?.task !== head.task_id || place.seq !== seq || id !== head.latest_id)
    throw invalid("checkpoint.metadata.checkpoint_id", `the newest of the task, ${head.latest_id}`, id);
  // The sweep of drafts never changes the newest checkpoint, so the version before is the imported one.
  if (version !== stored.version + 1)
    throw invalid("checkpoint.metadata.version", String(stored.version + 1), version);
}

/** Parents, and the checkpoint to fall back to, come before. */
async function requireReferences(
  tx: Tx,
  keys: TenantKeys,
  { metadata, recovery }: UnsealedCheckpoint,
): Promise<void> {
  const named = new Map<string, string>(metadata.parent_ids.map((id, i) => [id, `metadata.parent_ids.${i}`]));
  const fallback = recovery.last_successful_state;
  if (fallback !== undefined) named.set(fallback, "recovery.last_successful_state");
  const own = named.get(metadata.checkpoint_id);
  if (own !== undefined) throw invalid(`checkpoint.${own}`, "an earlier checkpoint", metadata.checkpoint_id);
  await requireInTask(tx, keys, metadata.task_id, named);
}
