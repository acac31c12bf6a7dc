/**
 * Finds the entries that the next step appends: those of the transitions that follow in the feed, in its order, and
 * then those of the tenants whose own chain has grown.
 */
import { leafHash } from "../../integrity/merkle/hashes.ts";
import type { KeyValue, Reader } from "../../store/store.ts";
import { type DueLog, readDueLogs } from "../audit/log-due.ts";
import { decode } from "../kv/codec.ts";
import { parseSeq, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { type FeedEntry, readFeed } from "../outbox/feed.ts";
import { type LogPosition, lastPlaced } from "./log-records.ts";

/** The limits of a step: its transaction writes a row for each entry, and the last tiles of each tenant. */
const ENTRIES_MAX = 500;
const TENANTS_MAX = 12;
/** Entries of a task beyond those of its transitions in the feed. There are none, unless the feed was damaged. */
const SURPLUS = 50;

export interface LoggedEntry {
  /** null: of the tenant's chain. */
  readonly task: string | null;
  readonly seq: number;
  readonly leaf: Uint8Array;
}

export interface LogPlan {
  /** For each tenant its new entries, in the order of their leaves. */
  readonly tenants: ReadonlyMap<string, readonly LoggedEntry[]>;
  readonly cursor: LogPosition["cursor"];
  /** The rows of the tenants whose chains are in the log then, unless they change before. */
  readonly done: readonly KeyValue[];
  /** Entries that cannot be read. They stay out of the log, and the scrub reports them. */
  readonly unreadable: number;
  /** Whether another step can follow at once. */
  readonly more: boolean;
}

export async function planLog(reader: Reader, { cursor }: LogPosition): Promise<LogPlan> {
  const due = await readDueLogs(reader, TENANTS_MAX);
  const page = await readFeed(reader, cursor, ENTRIES_MAX);
  const followed = withFewTenants(page.entries, due);
  const isAtEnd = !page.more && followed.length === page.entries.length;
  const entries = new Entries();
  await addTransitions(reader, entries, followed, isAtEnd ? SURPLUS : 0);
  const done = await addActs(reader, entries, due);
  return {
    ...{ tenants: entries.tenants, unreadable: entries.unreadable, done },
    cursor: followed.at(-1)?.key ?? cursor,
    more: !isAtEnd || done.length < due.length || due.length === TENANTS_MAX,
  };
}

class Entries {
  readonly tenants = new Map<string, LoggedEntry[]>();
  unreadable = 0;

  add(tenant: string, task: string | null, { key, value }: KeyValue): void {
    const text = textIn(value);
    if (text === null) {
      this.unreadable += 1;
      return;
    }
    const known = this.tenants.get(tenant) ?? [];
    known.push({ task, seq: parseSeq(key), leaf: leafHash(text) });
    this.tenants.set(tenant, known);
  }
}

/** null: the value is damaged. */
function textIn(value: Uint8Array): string | null {
  try {
    const text = decode<unknown>(value);
    return typeof text === "string" ? text : null;
  } catch {
    return null;
  }
}

/** The first entries, of at most {@link TENANTS_MAX} tenants together with those that are due. */
function withFewTenants<E extends FeedEntry>(entries: readonly E[], due: readonly DueLog[]): readonly E[] {
  const tenants = new Set(due.map(({ tenant }) => tenant));
  const end = entries.findIndex(({ tenant }) => {
    // At least one, so that each step advances.
    if (tenants.size < TENANTS_MAX + 1) tenants.add(tenant);
    return !tenants.has(tenant);
  });
  return end < 0 ? entries : entries.slice(0, end);
}

interface Chain {
  readonly tenant: string;
  readonly task: string;
  count: number;
}

async function addTransitions(
  reader: Reader,
  entries: Entries,
  followed: readonly FeedEntry[],
  surplus: number,
): Promise<void> {
  const chains = new Map<string, Chain>();
  for (const { tenant, task } of followed) {
    const name = nameOf({ tenant, task });
    const chain = chains.get(name) ?? { tenant, task, count: 0 };
    chain.count += 1;
    chains.set(name, chain);
  }
  const found = await Promise.all(
    [...chains].map(async ([name, { tenant, task, count }]) => {
      const keys = tenantKeys(tenant);
      const from = (await lastPlaced(reader, keys, task)) + 1;
      const range = { begin: keys.audit(task, from), end: keys.auditRange(task).end };
      const { rows } = await reader.getRange(range, { limit: count + surplus });
      return [name, [...rows]] as [string, KeyValue[]];
    }),
  );
  const rowsOf = new Map(found);
  for (const entry of followed) {
    const row = rowsOf.get(nameOf(entry))?.shift();
    // None: the trail is shorter than the feed says, which the scrub reports.
    if (row !== undefined) entries.add(entry.tenant, entry.task, row);
  }
  for (const [name, { tenant, task }] of chains) {
    for (const row of rowsOf.get(name) ?? []) entries.add(tenant, task, row);
  }
}

const nameOf = ({ tenant, task }: Pick<FeedEntry, "tenant" | "task">): string => `${tenant}/${task}`;

/** Returns the rows of the tenants whose chains are complete then. */
async function addActs(reader: Reader, entries: Entries, due: readonly DueLog[]): Promise<KeyValue[]> {
  const done: KeyValue[] = [];
  let left = ENTRIES_MAX;
  for (const { tenant, row } of due) {
    if (left === 0) break;
    const { rows, more } = await nextActs(reader, tenantKeys(tenant), left);
    for (const act of rows) entries.add(tenant, null, act);
    left -= rows.length;
    if (!more) done.push(row);
  }
  return done;
}

async function nextActs(reader: Reader, keys: TenantKeys, limit: number) {
  const from = (await lastPlaced(reader, keys, null)) + 1;
  return reader.getRange({ begin: keys.tenantAudit(from), end: keys.tenantAudits().end }, { limit });
}
