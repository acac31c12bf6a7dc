/** How far the logs are behind the chains. */
import type { Bytes, Reader } from "../../store/store.ts";
import { readDueLogs } from "../audit/log-due.ts";
import { decode } from "../kv/codec.ts";
import { parseTask, tenantKeys } from "../kv/keyspace.ts";
import { readFeedRows } from "../outbox/feed.ts";
import { readBehindLog, readBehindLogs } from "./log-behind.ts";
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

/** Rows of the feed among which the first one of a tenant is looked for. */
const TENANT_ROWS_MAX = 1_000;
/** Chains of a log that is behind. */
const BEHIND_TASKS_MAX = 50;

/** The age of the oldest entry of one tenant that is not in its log; 0: all are. */
export async function readTenantDelay(reader: Reader, tenant: string, nowMs: number): Promise<number> {
  const { cursor } = await readLogPosition(reader);
  const { rows } = await readFeedRows(reader, cursor, TENANT_ROWS_MAX);
  const next = rows.flatMap(({ entry }) => (entry?.tenant === tenant ? [entry] : []))[0];
  const tasks = next === undefined ? await tasksBehind(reader, tenant) : [next.task];
  const chains = [...tasks, null];
  const times = await Promise.all(chains.map((task) => unloggedSince(reader, tenant, task)));
  return Math.max(0, ...times.flatMap((time) => (time === null ? [] : [nowMs - time])));
}

/** The next chains of a log that is damaged or behind, whose entries the position in the feed has passed. */
async function tasksBehind(reader: Reader, tenant: string): Promise<string[]> {
  const behind = await readBehindLog(reader, tenant);
  if (behind === null) return [];
  const range = tenantKeys(tenant).ofTasksAfter("audit", behind.task);
  const { rows } = await reader.getRange(range, { limit: BEHIND_TASKS_MAX });
  return [...new Set(rows.map(({ key }) => parseTask(key)))];
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
