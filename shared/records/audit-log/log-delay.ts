/** How far the logs are behind the chains. */
import type { Bytes, Reader } from "../../store/store.ts";
import { readDueLogs } from "../audit/log-due.ts";
import { decode } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { readFeed } from "../outbox/feed.ts";
import { lastPlaced, readLogPosition } from "./log-records.ts";

export interface LogDelay {
  /** The entries in all logs. */
  readonly entries: number;
  /** The age of the oldest entry that is not in a log; 0: all are. */
  readonly delayMs: number;
}

/** Looks at the first transition that is not in a log, and at the tenants that are due. */
export async function readLogDelay(reader: Reader, nowMs: number): Promise<LogDelay> {
  const { cursor, entries } = await readLogPosition(reader);
  const [next] = (await readFeed(reader, cursor, 1)).entries;
  const [due] = await readDueLogs(reader, 1);
  const times = await Promise.all([
    next === undefined ? null : unloggedSince(reader, next.tenant, next.task),
    due === undefined ? null : unloggedSince(reader, due.tenant, null),
  ]);
  const delays = times.flatMap((time) => (time === null ? [] : [nowMs - time]));
  return { entries, delayMs: Math.max(0, ...delays) };
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
