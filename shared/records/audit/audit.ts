/**
 * The audit trail: one entry per transition of a task, written in the transition's own transaction and chained by hash to the
 * entry before it. Entries hold identifiers and hashes, never the content of a checkpoint.
 */
import { canonicalText } from "../../integrity/canonical.ts";
import { CHAIN_START, entryHash } from "../../integrity/chain.ts";
import type { AuditFacts, AuditOp, CheckpointChange } from "../../lifecycle/transition.ts";
import type { AuditRecord } from "../../protocol/queries.ts";
import type { TaskState } from "../../protocol/task.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { parseSeq, type TenantKeys } from "../kv/keyspace.ts";

export interface AuditActor {
  readonly id: string;
  readonly type: "agent" | "service" | "human";
}

/** A transition as its audit entry states it; the place in the chain, tenant and task are added here. */
export interface AuditedTransition {
  readonly op: AuditOp;
  readonly actor: AuditActor;
  readonly at: string;
  readonly commandId: string | null;
  /** null: the transition is about the task alone. */
  readonly checkpoint: CheckpointChange | null;
  readonly stateFrom: TaskState | null;
  readonly stateTo: TaskState;
  readonly fence: number;
  /** Further facts of this kind of transition: changed fields, final status, reason. */
  readonly facts: AuditFacts;
}

/** The version of an entry whose facts tell how the task stands after it; entries of version 1 lack some. */
export const AUDIT_VERSION = 2;

export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

/** Writes the entry after the chain's newest (null: the task begins here) and returns the new head of the chain. */
export function appendAudit(
  tx: Tx,
  keys: TenantKeys,
  place: { tenant: string; task: string; chain: ChainHead | null },
  transition: AuditedTransition,
): ChainHead {
  const seq = (place.chain?.seq ?? 0) + 1;
  const { checkpoint } = transition;
  // In the order of their names, which saves the sorting.
  const entry = canonicalText({
    actor: transition.actor,
    at: transition.at,
    checkpoint_id: checkpoint?.id ?? null,
    command_id: transition.commandId,
    fence: transition.fence,
    new_hash: checkpoint?.newHash ?? null,
    old_hash: checkpoint?.oldHash ?? null,
    op: transition.op,
    prev: place.chain?.hash ?? CHAIN_START,
    seq,
    state_from: transition.stateFrom,
    state_to: transition.stateTo,
    task: place.task,
    tenant: place.tenant,
    v: AUDIT_VERSION,
    version: checkpoint?.version ?? null,
    ...transition.facts,
  });
  tx.set(keys.audit(place.task, seq), encode(entry));
  return { seq, hash: entryHash(entry) };
}

function record(seq: number, value: Bytes): AuditRecord {
  const entry = decode<string>(value);
  return { seq, entry, hash: entryHash(entry) };
}

/** Entries from `fromSeq` on, in order, at most `limit`. */
export async function readAudit(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  fromSeq: number,
  limit: number,
): Promise<{ entries: AuditRecord[]; more: boolean }> {
  const { end } = keys.auditRange(task);
  const { rows, more } = await reader.getRange({ begin: keys.audit(task, fromSeq), end }, { limit });
  // The key is the entry's place; a missing entry shows as a gap to whoever verifies.
  const entries = rows.map(({ key, value }) => record(parseSeq(key), value));
  return { entries, more };
}
