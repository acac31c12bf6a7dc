/** The record of a handoff, with its index entries: by its task, and by its due time while it is open. */
import { openHandoffOf, type TaskRecord } from "../../lifecycle/task.ts";
import type { HandoffUpdate } from "../../lifecycle/transition.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, readable } from "../kv/codec.ts";
import { countHandoff } from "../kv/counters.ts";
import { systemKeys, type TenantKeys } from "../kv/keyspace.ts";

/** The members that records of earlier versions lack. */
const DEFAULTS = { recovery: null, supersedes_recovery: false, offer_digest: null };

/** null: the record is lost or damaged, or that of another handoff. */
export function soundHandoff(id: string, value: Bytes | undefined): Handoff | null {
  const stored = value === undefined ? null : readable(() => decodeChecked<Handoff>(value));
  return stored?.handoff_id === id ? Object.assign({ ...DEFAULTS }, stored) : null;
}

/** Throws CORRUPT: an operator must decide about a handoff that cannot be read, or that is another one. */
export function decodeHandoff(id: string, value: Bytes | undefined): Handoff {
  const handoff = soundHandoff(id, value);
  if (handoff !== null) return handoff;
  throw new FleetError("CORRUPT", "the stored handoff cannot be read", { details: { handoff_id: id } });
}

/** The open handoff of a task; reads nothing if the head names none. */
export async function readOpenHandoff(
  reader: Reader,
  keys: TenantKeys,
  head: Pick<TaskRecord, "work"> | null,
): Promise<Handoff | null> {
  const id = head === null ? null : openHandoffOf(head);
  return id === null ? null : decodeHandoff(id, await reader.get(keys.handoff(id)));
}

/** Writes the record, with exactly one due entry while it is open. */
export function writeHandoff(tx: Tx, keys: TenantKeys, { before, after }: HandoffUpdate): void {
  const { handoff_id: id, task_id: task, tenant } = after;
  const due = (at: string): Bytes => systemKeys.handoffDue(Date.parse(at), tenant, id);
  const nothing = new Uint8Array(0);
  tx.set(keys.handoff(id), encodeChecked(after));
  if (before === null) tx.set(keys.taskHandoff(task, id), nothing);
  const dueBefore = before?.due_at ?? null;
  if (dueBefore !== null && dueBefore !== after.due_at) tx.clear(due(dueBefore));
  if (after.due_at !== null) tx.set(due(after.due_at), nothing);
  countHandoff(tx, before, after);
}
