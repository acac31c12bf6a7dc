/** update_checkpoint: a JSON merge patch of the fields that an agent may write. Seed 000 FR-002, step 2.1. */
import { mergePatch, namedFields, patchedFields } from "../../integrity/merge.ts";
import { unsealedCheckpointSchema } from "../../protocol/checkpoint.ts";
import type { UpdateCommand } from "../../protocol/commands.ts";
import { type FieldProblem, FleetError } from "../../protocol/errors.ts";
import { SIGNATURE_MEMBERS } from "../../protocol/esign.ts";
import { requireSupported } from "../../protocol/migrations.ts";
import { validate } from "../../protocol/validation.ts";
import type { Tx } from "../../store/store.ts";
import { requireArtifacts } from "../artifacts/references.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { change, current } from "./change.ts";
import { requireInTask } from "./create.ts";
import { requireLastSuccessful } from "./last-successful-state.ts";
import { advisedBy, withTriggers } from "./triggers.ts";

/** The fields that only the writer sets, with the operation that changes each, if there is one. */
const WRITER_FIELDS: Readonly<Record<string, string>> = {
  "metadata.checkpoint_id": "no change: an id never changes",
  "metadata.tenant": "no change: a checkpoint stays in its tenant",
  "metadata.task_id": "no change: a checkpoint stays in its task",
  "metadata.agent_id": "no change: the author never changes",
  "metadata.agent_type": "no change: the author never changes",
  "metadata.status": "no change: use finalize",
  "metadata.final_status": "no change: use finalize",
  "metadata.parent_ids": "no change: use link",
  "metadata.version": "no change: the writer counts versions",
  "metadata.seq": "no change: the writer keeps the order",
  "metadata.committed_at": "no change: the writer sets it",
  "metadata.forked_from": "no change: the writer sets it",
  "metadata.handoff_triggers": "no change: the writer evaluates them",
  "compliance.hash": "no change: the writer computes it",
  "compliance.signature": "no change: signing sets it",
  "compliance.imported_from": "no change: an import sets it",
  "compliance.event_log_ref": "no change: the writer sets it",
  "compliance.salt": "no change: the writer makes it",
  "compliance.retain_until": "no change: finalize sets it",
  "compliance.retention_floor": "no change: the settings of the tenant set it",
  ...Object.fromEntries(SIGNATURE_MEMBERS.map((name) => [name, "no change: people sign"])),
};

function requireWritable(fields: readonly string[]): void {
  const problems: FieldProblem[] = fields.flatMap((field) => {
    const rule = Object.keys(WRITER_FIELDS).find(
      (own) => field === own || own.startsWith(`${field}.`) || field.startsWith(`${own}.`),
    );
    // A patch that sets or removes a whole section would change the writer's fields with it.
    return rule === undefined ? [] : [{ path: `patch.${field}`, expected: WRITER_FIELDS[rule] as string }];
  });
  if (fields.length === 0) problems.push({ path: "patch", expected: "at least one field to change" });
  if (problems.length > 0) throw new FleetError("INVALID", "the input is not valid", { fields: problems });
}

/** Refuses a patch that is invalid by itself; returns the dotted paths of its fields. */
export function checkPatch(command: UpdateCommand): readonly string[] {
  const fields = patchedFields(command.patch);
  requireWritable(fields);
  return fields;
}

export async function updateCheckpoint(
  tx: Tx,
  context: CommandContext,
  command: UpdateCommand,
): Promise<RememberedCheckpoint | Replay> {
  const fields = checkPatch(command);
  const now = await current(tx, context, command.checkpoint_id, command.expected_version);
  if ("replay" in now) return now;
  const patched = validate(unsealedCheckpointSchema, mergePatch(now.checkpoint, command.patch), "patch");
  const next = withTriggers(patched, context.policies);
  requireSupported(next.schema_version);
  if (fields.some((field) => field.startsWith("artifacts")))
    await requireArtifacts(tx, now.begun.keys, next.artifacts, "patch.artifacts");
  const fallback = next.recovery.last_successful_state;
  if (fallback !== undefined && fallback !== now.checkpoint.recovery.last_successful_state) {
    const { task } = context.actor;
    const { keys } = now.begun;
    const path = "recovery.last_successful_state";
    await requireInTask(tx, keys, task, new Map([[fallback, path]]), "patch.");
    const named = { id: fallback, path: `patch.${path}`, seq: now.checkpoint.metadata.seq };
    await requireLastSuccessful(tx, keys, task, named);
  }
  const named = namedFields(fields);
  return change(tx, context, now, {
    next,
    op: "update",
    event: { type: "CHECKPOINT_UPDATED", data: { checkpointId: command.checkpoint_id, fields: named } },
    facts: { fields: named },
    advised: advisedBy(next),
  });
}
