/** Reads handoffs, without the secrets in their texts: one, a page of them, and the due ones. */
import { openHandoffOf } from "../../lifecycle/task.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import { isCheckpointId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { HandoffPage, QueryParams } from "../../protocol/queries.ts";
import type { Bytes, KeyValue, Reader } from "../../store/store.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { type DueIndex, parseHandoffDue } from "../kv/due-index.ts";
import { endingId, systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeHead } from "../task/head.ts";
import { redactedHandoff } from "./handoff-view.ts";
import { decodeHandoff } from "./record.ts";

/** The number of records read at once. */
const SLICE = 100;

/** The handoff with an id, or of a task: the open one, else the latest. Throws NOT_FOUND. */
export async function findHandoff(
  reader: Reader,
  tenant: string,
  { handoff_id, task_id = "" }: QueryParams<"handoff">,
): Promise<Handoff> {
  const keys = tenantKeys(tenant);
  const id = handoff_id ?? (await idOfTask(reader, keys, task_id));
  const value = id === null ? undefined : await reader.get(keys.handoff(id));
  if (id === null || value === undefined) {
    throw new FleetError("NOT_FOUND", "there is no such handoff", {
      details: handoff_id === undefined ? { task_id } : { handoff_id },
    });
  }
  return redactedHandoff(decodeHandoff(id, value));
}

/** Callers make the ids, so the open handoff may not have the latest id. */
async function idOfTask(reader: Reader, keys: TenantKeys, task: string): Promise<string | null> {
  const value = await reader.get(keys.task(task));
  const open = value === undefined ? null : openHandoffOf(decodeHead(value));
  if (open !== null) return open;
  const { rows } = await reader.getRange(keys.taskHandoffs(task), { limit: 1, reverse: true });
  return rows[0] === undefined ? null : endingId(rows[0].key);
}

/**
 * The newest first. A page ends early after a scan of many handoffs in other states. A corrupt record is named,
 * so that it does not hide the other handoffs.
 */
export async function listHandoffs(
  reader: Reader,
  tenant: string,
  { task_id: task, state, limit, cursor }: QueryParams<"handoffs">,
): Promise<HandoffPage> {
  const keys = tenantKeys(tenant);
  const kind = `handoffs/${tenant}/${task ?? ""}/${state ?? ""}`;
  const keyOf = (id: string) => (task === undefined ? keys.handoff(id) : keys.taskHandoff(task, id));
  const range = task === undefined ? keys.handoffs() : keys.taskHandoffs(task);
  let last = cursor === undefined ? null : idInCursor(openCursor(kind, cursor));
  const handoffs: Handoff[] = [];
  const corrupt: string[] = [];
  for (let scanned = 0; ; ) {
    const end = last === null ? range.end : keyOf(last);
    const { rows, more } = await reader.getRange(
      { begin: range.begin, end },
      { limit: SLICE, reverse: true },
    );
    const ids = rows.map(({ key }) => endingId(key));
    const listed =
      task === undefined ? await ofTenant(reader, keys, rows) : await ofTask(reader, keys, task, ids);
    for (const [i, id] of ids.entries()) {
      const handoff = listed[i] ?? null;
      last = id;
      if (handoff === null) corrupt.push(id);
      else if (state === undefined || handoff.state === state) handoffs.push(handoff);
      if (handoffs.length < limit) continue;
      const isLast = !more && i === ids.length - 1;
      return { handoffs, corrupt, ...(!isLast && { cursor: sealCursor(kind, id) }) };
    }
    scanned += ids.length;
    if (!more || last === null) return { handoffs, corrupt };
    if (scanned >= LIMITS.handoffs_scan_count_max)
      return { handoffs, corrupt, cursor: sealCursor(kind, last) };
  }
}

/** null: the record is corrupt, or its task does not list it. */
async function ofTenant(
  reader: Reader,
  keys: TenantKeys,
  rows: readonly KeyValue[],
): Promise<(Handoff | null)[]> {
  const handoffs = rows.map(({ key, value }) => decodeSound(endingId(key), value));
  const sound = handoffs.filter((one) => one !== null);
  const entries = await reader.getMany(sound.map((one) => keys.taskHandoff(one.task_id, one.handoff_id)));
  const unlisted = new Set(sound.filter((_, i) => entries[i] === undefined));
  return handoffs.map((one) => (one === null || unlisted.has(one) ? null : one));
}

/** null: the record is missing, corrupt or of another task. */
async function ofTask(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  ids: readonly string[],
): Promise<(Handoff | null)[]> {
  const values = await reader.getMany(ids.map(keys.handoff));
  const handoffs = ids.map((id, i) => decodeSound(id, values[i]));
  return handoffs.map((one) => (one?.task_id === task ? one : null));
}

function idInCursor(text: string): string {
  if (!isCheckpointId(text)) throw invalid("cursor", "the cursor of this query's last page, unchanged", text);
  return text;
}

/** The key of a handoff. */
export type HandoffPlace = Pick<Handoff, "tenant" | "handoff_id">;

/** The handoffs that are due by now. */
export function handoffsDue(nowMs: number): DueIndex<HandoffPlace, Handoff> {
  return {
    range: systemKeys.handoffsDueBefore(nowMs + 1),
    placeOf: ({ key }) => {
      const { tenant, id } = parseHandoffDue(key);
      return { tenant, handoff_id: id };
    },
    recordKey: ({ tenant, handoff_id }) => tenantKeys(tenant).handoff(handoff_id),
    decode: (value, { handoff_id }) => decodeSound(handoff_id, value),
  };
}

function decodeSound(id: string, value: Bytes | undefined): Handoff | null {
  try {
    return redactedHandoff(decodeHandoff(id, value));
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return null;
    throw error;
  }
}
