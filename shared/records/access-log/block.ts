/** A stored block of the access log. */
import type { AccessEntry } from "../../protocol/access-log.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { KeyValue } from "../../store/store.ts";
import { decode, isDamage } from "../kv/codec.ts";

/** The hashed text; empty for a damaged block, which then does not verify. */
export function blockText(value: Uint8Array): string {
  try {
    return decode<string>(value);
  } catch (error) {
    if (isDamage(error)) return "";
    throw error;
  }
}

/** A block as far as lists and retention read it. A damaged one has no time and no entries; the verification of the chain finds it. */
export interface ReadBlock {
  readonly at: string;
  readonly entries: readonly AccessEntry[];
}

export function readBlock({ value }: Pick<KeyValue, "value">): ReadBlock {
  try {
    const block = JSON.parse(blockText(value)) as Partial<ReadBlock> | null;
    const entries = Array.isArray(block?.entries) ? block.entries : [];
    return { at: String(block?.at ?? ""), entries };
  } catch (error) {
    if (error instanceof SyntaxError) return { at: "", entries: [] };
    throw error;
  }
}

/** Whether an entry is in the list that was asked for. */
export function isWanted(entry: AccessEntry, query: QueryParams<"access_log">): boolean {
  const { task_id, actor, from, to, denied } = query;
  if (denied && entry.outcome !== "denied") return false;
  if (actor !== undefined && entry.actor.id !== actor) return false;
  if (task_id !== undefined && entry.task_id !== task_id && entry.task_ids?.includes(task_id) !== true)
    return false;
  const until = Date.parse(entry.until ?? entry.at);
  if (from !== undefined && until < Date.parse(from)) return false;
  return to === undefined || Date.parse(entry.at) <= Date.parse(to);
}
