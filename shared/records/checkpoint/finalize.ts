/**
 * finalize_checkpoint: the checkpoint never changes again and is kept as long as its retention policy states.
 * Seed 000 FR-002, NFR-013, NFR-014.
 */

import { completedItems } from "../../lifecycle/budget.ts";
import type { Decision } from "../../lifecycle/decision.ts";
import type { Checkpoint, StoredFinalStatus, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import type { FinalizeCommand } from "../../protocol/commands.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { longerRetention, promisedDays } from "../../protocol/retention.ts";
import type { Tx } from "../../store/store.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { change, current, type VersionContext, writeNextVersion } from "./change.ts";
import { findInTask } from "./lookup.ts";
import { floorOf } from "./retention-floor.ts";

const DAY_MS = 86_400_000;

export async function finalizeCheckpoint(
  tx: Tx,
  context: CommandContext,
  { checkpoint_id: id, status, retention_policy, expected_version }: FinalizeCommand,
): Promise<RememberedCheckpoint | Replay> {
  const now = await current(tx, context, id, expected_version);
  if ("replay" in now) return now;
  const policy = retention_policy ?? now.checkpoint.compliance.retention_policy;
  const next = finalized(context, now.checkpoint, status, policy);
  return change(tx, context, now, {
    next,
    op: "finalize",
    event: finalizedEvent(id, status),
    facts: { final_status: status, retention_policy: policy },
    finalStatus: status,
  });
}

/** The finalized form of a checkpoint. */
function finalized(
  { actor, policies, nowMs }: Pick<CommandContext, "actor" | "policies" | "nowMs">,
  checkpoint: Checkpoint,
  status: StoredFinalStatus,
  policy: Checkpoint["compliance"]["retention_policy"],
): UnsealedCheckpoint {
  const floor = floorOf({ actor, policies }, checkpoint.compliance);
  const days = promisedDays(longerRetention(policy, floor));
  // A policy that promises no time has no end, and neither has one that promises forever.
  const endMs = days === 0 || days === Infinity ? null : nowMs + days * DAY_MS;
  return {
    ...checkpoint,
    metadata: { ...checkpoint.metadata, status: "finalized", final_status: status },
    compliance: {
      ...checkpoint.compliance,
      retention_policy: policy,
      ...(endMs !== null && { retain_until: new Date(endMs).toISOString() }),
    },
  };
}

function finalizedEvent(checkpointId: string, status: StoredFinalStatus) {
  return { type: "CHECKPOINT_FINALIZED", data: { checkpointId, status } } as const;
}

/**
 * Finalizes a draft on behalf of the fleet: in the transaction of another command, or in a sweep. A finalized
 * checkpoint is left alone, and so is a corrupt one: the next read finds it.
 */
export async function finalizeDraft(
  tx: Tx,
  context: VersionContext,
  keys: TenantKeys,
  decision: Decision,
  { id, status }: { readonly id: string; readonly status: StoredFinalStatus },
): Promise<void> {
  const found = await findInTask(tx, keys, context.actor.task, id);
  if (!found.sound || found.checkpoint.metadata.status === "finalized") return;
  const { checkpoint } = found;
  const policy = checkpoint.compliance.retention_policy;
  const { change: version, next } = writeNextVersion(tx, context, keys, found, {
    next: finalized(context, checkpoint, status, policy),
    auditSeq: decision.task.audit_seq + 1,
    allowance: LIMITS.writer_bytes_max,
  });
  const { phase } = next.execution_state;
  decision.add("finalize", {
    checkpoint: version,
    facts: { final_status: status, retention_policy: policy, phase, items: completedItems(next) },
    event: finalizedEvent(id, status),
  });
}
