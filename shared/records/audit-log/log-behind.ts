/**
 * The tenants whose log does not follow the feed: it is damaged, or some chains of its tasks are behind. One row for each,
 * so that the logs of the other tenants can continue.
 */
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, isDamage } from "../kv/codec.ts";
import { after, endingName, systemKeys } from "../kv/keyspace.ts";

export interface BehindLog {
  readonly tenant: string;
  /** Whether its entries in the feed are passed, because the log cannot be written. */
  readonly isDamaged: boolean;
  /** The last task whose chain is complete in the log since the row exists. null: there is none. */
  readonly task: string | null;
}

type Row = readonly [isDamaged: boolean, task: string | null];

export function writeBehindLog(tx: Tx, { tenant, isDamaged, task }: BehindLog): void {
  tx.set(systemKeys.logBehind(tenant), encodeChecked([isDamaged, task] satisfies Row));
}

export function clearBehindLog(tx: Tx, tenant: string): void {
  tx.clear(systemKeys.logBehind(tenant));
}

/** A damaged row counts as that of a damaged log: all chains are compared then. */
function behindIn(tenant: string, value: Bytes): BehindLog {
  try {
    const [isDamaged, task] = decodeChecked<Row>(value);
    return { tenant, isDamaged, task };
  } catch (error) {
    if (isDamage(error)) return { tenant, isDamaged: true, task: null };
    throw error;
  }
}

/** The rows that follow that of `tenant`; null: the first ones. */
export async function readBehindLogs(
  reader: Reader,
  tenant: string | null,
  limit: number,
): Promise<BehindLog[]> {
  const { begin, end } = systemKeys.logsBehind();
  const from = tenant === null ? begin : after(systemKeys.logBehind(tenant));
  const { rows } = await reader.getRange({ begin: from, end }, { limit });
  return rows.map(({ key, value }) => behindIn(endingName(key), value));
}

export async function readBehindLog(reader: Reader, tenant: string): Promise<BehindLog | null> {
  const value = await reader.get(systemKeys.logBehind(tenant));
  return value === undefined ? null : behindIn(tenant, value);
}
