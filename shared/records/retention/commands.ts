/** The commands `remove` and `retain`: an operator removes a checkpoint, or changes which policy new checkpoints have. */
import { NO_RETENTION } from "../../lifecycle/retention/hold-rules.ts";
import { judge } from "../../lifecycle/retention/rules.ts";
import type { RemoveCommand, RetainCommand } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Tx } from "../../store/store.ts";
import { decodePlace } from "../checkpoint/checkpoint-location.ts";
import { findAt, requireSound } from "../checkpoint/lookup.ts";
import { decodeOrder, type OrderEntry } from "../checkpoint/order.ts";
import { renewKeysOfEmptied } from "../encryption/renew-keys.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import type { RememberedRemoval, RememberedRetention } from "../task/idempotency.ts";
import { readNeeds } from "./needs.ts";
import { retained, rulesOf } from "./plan.ts";
import { clearCheckpoint, storedBytes } from "./removal.ts";

/**
 * Throws NOT_FOUND for an unknown or removed checkpoint, CORRUPT for one whose policy cannot be read, and
 * CONFLICT for one that retention keeps.
 */
export async function removeCheckpoint(
  tx: Tx,
  context: CommandContext,
  { checkpoint_id: id, older_than_days: days, keep, if_due: isIfDue }: RemoveCommand,
): Promise<RememberedRemoval | Replay> {
  const begun = await begin(tx, context, (keys) => [keys.id(id)], { supersedes: true });
  if ("replay" in begun) return begun;
  const { policies, nowMs } = context;
  const { head: task, keys } = begun;
  const [located] = begun.values;
  const place = located === undefined ? null : decodePlace(located);
  if (task === null || place?.task !== task.task_id) {
    const details = { checkpoint_id: id, task_id: context.actor.task };
    throw new FleetError("NOT_FOUND", "the task has no such checkpoint", { details });
  }
  // The head's read conflict covers all records of the task.
  const reader = tx.snapshot;
  const { checkpoint } = requireSound(await findAt(reader, keys, id, place));
  const entry = decodeOrder(await reader.get(keys.order(task.task_id, place.seq))) as OrderEntry;
  const given = { ...(days !== undefined && { days }), ...(keep !== undefined && { keep }) };
  const rules = rulesOf(task, { policies, rules: given });
  const needs = await readNeeds(reader, task, { rules, policies, nowMs });
  const judgement = judge(task, await retained(reader, task, checkpoint), needs, {
    rules,
    nowMs,
    named: !isIfDue,
  });
  const freed_bytes = await storedBytes(reader, keys, task.task_id, id);
  const { version, hash } = entry;
  const decision = decided(
    context,
    { task, handoff: null },
    {
      type: "remove",
      change: { id, version, oldHash: hash, newHash: null },
      policy: checkpoint.compliance.retention_policy,
      judgement,
    },
  );
  if ("remove" in judgement) {
    await clearCheckpoint(tx, keys, decision, { entry, checkpoint, reason: judgement.remove });
    await renewKeysOfEmptied(tx, task.tenant, task.task_id);
  }
  const { task_id } = task;
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: {
      ...{ task_id, checkpoint_id: id, version, seq: place.seq, hash },
      ...{ committed_at: decision.at, freed_bytes },
    },
  });
}

/** Throws NOT_FOUND for an unknown task, and INVALID for a policy below the retention floor. */
export async function retainTask(
  tx: Tx,
  context: CommandContext,
  { retention_policy: policy }: RetainCommand,
): Promise<RememberedRetention | Replay> {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const state = { task: begun.head, handoff: null };
  const decision = decided(context, state, { type: "retain", policy });
  const { task_id, retention } = decision.task;
  const { policy: retention_policy, holds } = retention ?? NO_RETENTION;
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: { task_id, retention_policy, holds: [...holds], committed_at: decision.at },
  });
}
