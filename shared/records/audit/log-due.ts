/** The tenants whose chain may have entries that are not in the log yet. One row for each, not for each entry. */
import type { KeyValue, Reader, Tx } from "../../store/store.ts";
import { encode } from "../kv/codec.ts";
import { endingName, systemKeys } from "../kv/keyspace.ts";

/** `seq`: of the newest entry, so that the row of a later entry is another one. */
export function markLogDue(tx: Tx, tenant: string, seq: number): void {
  tx.set(systemKeys.logDue(tenant), encode(seq));
}

export interface DueLog {
  readonly tenant: string;
  readonly row: KeyValue;
}

export async function readDueLogs(reader: Reader, limit: number): Promise<DueLog[]> {
  const { rows } = await reader.getRange(systemKeys.logsDue(), { limit });
  return rows.map((row) => ({ tenant: endingName(row.key), row }));
}
