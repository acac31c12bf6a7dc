/**
 * Quarantine: a corrupt version of a checkpoint is marked, audited and announced once, in one transaction.
 * The mark keeps it from being served even if its bytes verify later; only an operator removes it.
 */
import { annotate } from "../../lifecycle/decision.ts";
import type { CorruptCheckpoint } from "../../protocol/queries.ts";
import type { Tx } from "../../store/store.ts";
import { encode } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { isNewest } from "../task/command-transaction.ts";
import { decodeHead } from "../task/head.ts";
import { writeTransitions } from "../task/transitions.ts";

export interface Finding {
  readonly tenant: string;
  readonly task: string;
  readonly corrupt: CorruptCheckpoint & { readonly checkpoint_id: string };
  /** The service that found it. */
  readonly finder: string;
  readonly nowMs: number;
  readonly incarnation: number;
  readonly traceparent: string | undefined;
}

/** A row that cannot be decoded has no version; it is quarantined as version 0. */
const VERSION_UNKNOWN = 0;

/**
 * Returns false when the version was quarantined before, or when the task's head is stale, so that no entry
 * can be added.
 */
export async function quarantine(tx: Tx, finding: Finding): Promise<boolean> {
  const { tenant, task, corrupt } = finding;
  const keys = tenantKeys(tenant);
  const mark = keys.quarantine(task, corrupt.checkpoint_id, corrupt.version ?? VERSION_UNKNOWN);
  const [marked, headValue] = await tx.getMany([mark, keys.task(task)]);
  if (marked !== undefined || headValue === undefined) return false;
  const head = decodeHead(headValue);
  // An entry after a head that was rolled back would overwrite an existing one.
  if (!(await isNewest(tx, keys, task, head))) return false;
  const at = new Date(finding.nowMs).toISOString();
  tx.set(mark, encode({ reason: corrupt.reason, at, by: finding.finder }));
  const { checkpoint_id: checkpointId, version, reason } = corrupt;
  const actor = { id: finding.finder, type: "service" } as const;
  const { nowMs, incarnation, traceparent } = finding;
  const transitions = annotate(head, actor.id, nowMs, "quarantine", {
    checkpoint: { id: checkpointId, version, oldHash: null, newHash: null },
    facts: { reason },
    event: { type: "CHECKPOINT_CORRUPTED", data: { checkpointId, error: reason } },
  });
  const author = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent };
  writeTransitions(tx, keys, author, head, transitions);
  return true;
}
