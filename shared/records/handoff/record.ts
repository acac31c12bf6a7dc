/** The record of a handoff, with the keys that lead to it: its task's handoffs, and when it is due while it is open. */
import { FleetError } from "../../protocol/errors.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import type { Task } from "../../protocol/task.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { countHandoff } from "../kv/counters.ts";
import { systemKeys, type TenantKeys } from "../kv/keyspace.ts";
import type { Step } from "../task/transitions.ts";
import type { Move } from "./handoff-transitions.ts";

/** One that was written before there were recoveries. */
const OF_NO_RECOVERY = { recovery: null, supersedes_recovery: false };

/** Throws CORRUPT: a handoff that cannot be read is for a person to decide about. */
export function decodeHandoff(id: string, value: Bytes | undefined): Handoff {
  try {
    if (value !== undefined) return Object.assign({ ...OF_NO_RECOVERY }, decodeChecked<Handoff>(value));
  } catch (error) {
    if (!(error instanceof UnreadableValue)) throw error;
  }
  throw new FleetError("CORRUPT", "the stored handoff cannot be read", { details: { handoff_id: id } });
}

/** The handoff that is open; reads nothing when the task's head says that none is. */
export async function readOpen(
  reader: Reader,
  keys: TenantKeys,
  head: Pick<Task, "handoff_id"> | null,
): Promise<Handoff | null> {
  const id = head?.handoff_id ?? null;
  return id === null ? null : decodeHandoff(id, await reader.get(keys.handoff(id)));
}

/** Writes what a handoff has become, with exactly one due entry while it is open; returns the transitions to be made with it. */
export function write(tx: Tx, keys: TenantKeys, { before, after, steps }: Move): readonly Step[] {
  const { handoff_id: id, task_id: task, tenant } = after;
  const due = (at: string): Bytes => systemKeys.handoffDue(Date.parse(at), tenant, id);
  const nothing = new Uint8Array(0);
  tx.set(keys.handoff(id), encodeChecked(after));
  if (before === null) tx.set(keys.taskHandoff(task, id), nothing);
  const dueBefore = before?.due_at ?? null;
  if (dueBefore !== null && dueBefore !== after.due_at) tx.clear(due(dueBefore));
  if (after.due_at !== null) tx.set(due(after.due_at), nothing);
  countHandoff(tx, before?.state ?? null, after.state);
  return steps;
}
