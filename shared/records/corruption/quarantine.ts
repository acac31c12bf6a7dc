/**
 * Quarantine: a corrupt version of a checkpoint is marked, audited and announced once, in one transaction.
 * The mark keeps it from being served even if its bytes verify later. Only a restoration from a copy lifts it.
 */
import { annotate } from "../../lifecycle/decision.ts";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
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

/** The value of a mark. */
export interface QuarantineMark {
  readonly reason: string;
  readonly at: string;
  readonly by: string;
  /** The version was restored from a copy and is served again. The mark stays, as its entry in the trail does. */
  readonly lifted_at?: string;
}

/** Whether a version with this mark must not be served. A mark that cannot be read counts as one. */
export function isQuarantined(mark: Bytes | undefined): boolean {
  return mark !== undefined && !isLifted(mark);
}

export function isLifted(mark: Bytes): boolean {
  try {
    return typeof decode<QuarantineMark>(mark).lifted_at === "string";
  } catch {
    return false;
  }
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
  if (isQuarantined(marked) || headValue === undefined) return false;
  const head = decodeHead(headValue);
  // An entry after a head that was rolled back would overwrite an existing one.
  if (!(await isNewest(tx, keys, task, head))) return false;
  const at = new Date(finding.nowMs).toISOString();
  tx.set(mark, encode({ reason: corrupt.reason, at, by: finding.finder } satisfies QuarantineMark));
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
