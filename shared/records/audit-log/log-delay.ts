/** How far the logs are behind the chains. */
import type { Bytes, Reader } from "../../store/store.ts";
import { readDueLogs } from "../audit/log-due.ts";
import { decode } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { readFeedRows } from "../outbox/feed.ts";
import { readBehindLogs } from "./log-behind.ts";
import { lastPlaced, readLogPosition } from "./log-records.ts";

/** Rows among which the first sound one is looked for. */
const ROWS_MAX = 100;
/** Tenants that are counted. */
const TENANTS_MAX = 1_000;

export interface LogDelay {
  /** The entries in all logs. */
  readonly entries: number;
  /** The tenants whose log is damaged. Their entries have no part in the delay. */
  readonly damaged: number;
  /** The age of the oldest entry that is not in a log; 0: all are. */
  readonly delayMs: number;
}

/** Looks at the first transition that is not in a log, and at the tenants that are due. */
export async function readLogDelay(reader: Reader, nowMs: number): Promise<LogDelay> {
  const { cursor, entries } = await readLogPosition(reader);
  const { rows } = await readFeedRows(reader, cursor, ROWS_MAX);
  const next = rows.flatMap(({ entry }) => entry ?? [])[0];
  const [due] = await readDueLogs(reader, 1);
  const times = await Promise.all([
    next === undefined ? null : unloggedSince(reader, next.tenant, next.task),
    due === undefined ? null : unloggedSince(reader, due.tenant, null),
  ]);
  const delays = times.flatMap((time) => (time === null ? [] : [nowMs - time]));
  const behind = await readBehindLogs(reader, null, TENANTS_MAX);
  const damaged = behind.filter(({ isDamaged }) => isDamaged).length;
  return { entries, damaged, delayMs: Math.max(0, ...delays) };
}

/** The time of the first entry of a chain that is not in the log. null: it has none, or it cannot be read. */
async function unloggedSince(reader: Reader, tenant: string, task: string | null): Promise<number | null> {
  const keys = tenantKeys(tenant);
  const seq = (await lastPlaced(reader, keys, task)) + 1;
  const value = await reader.get(task === null ? keys.tenantAudit(seq) : keys.audit(task, seq));
  return value === undefined ? null : timeIn(value);
}

function timeIn(value: Bytes): number | null {
  try {
    const { at } = JSON.parse(decode<string>(value)) as { readonly at?: unknown };
    const time = Date.parse(String(at));
    return Number.isNaN(time) ? null : time;
  } catch {
    return null;
  }
}
