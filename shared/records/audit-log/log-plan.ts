/**
 * Finds the entries that the next step appends: those of the transitions that follow in the feed, in its order, and
 * then those of the tenants whose own chain has grown.
 */
import type { FleetError } from "../../protocol/errors.ts";
import type { KeyValue, Reader } from "../../store/store.ts";
import { type DueLog, readDueLogs } from "../audit/log-due.ts";
import { type FeedEntry, type FeedRow, readFeedRows } from "../outbox/feed.ts";
import { readBehindLog } from "./log-behind.ts";
import { type ChainEnds, type LoggedEntry, readUnlogged, type UnloggedEntries } from "./log-entries.ts";
import { isOfOneLog, type LogPosition } from "./log-records.ts";

/** The limits of a step: its transaction writes a row for each entry, and the last tiles of each tenant. */
const TRANSITIONS_MAX = 400;
const ACTS_MAX = 100;
const TENANTS_MAX = 12;
/** Of the entries that a step hashes. */
const BYTES_MAX = 4_000_000;

export interface LogPlan {
  /** For each tenant its new entries, in the order of their leaves. */
  readonly tenants: ReadonlyMap<string, readonly LoggedEntry[]>;
  readonly cursor: LogPosition["cursor"];
  /** The rows of the tenants whose chains are in the log then, unless they change before. */
  readonly done: readonly KeyValue[];
  /** Tenants with an entry that this version cannot read. */
  readonly failed: ReadonlyMap<string, FleetError>;
  /** Tenants with more entries than the feed has transitions, because rows of the feed were damaged. */
  readonly behind: ReadonlySet<string>;
  /** Damaged rows of the feed that were passed. */
  readonly damagedRows: number;
  /** Whether another step can follow at once. */
  readonly more: boolean;
}

export async function planLog(
  reader: Reader,
  { cursor }: LogPosition,
  ends: ChainEnds | undefined,
): Promise<LogPlan> {
  const due = await readDueLogs(reader, TENANTS_MAX);
  const page = await readFeedRows(reader, cursor, TRANSITIONS_MAX);
  const rows = withFewTenants(page.rows, due);
  const aside = await damagedAmong(reader, [...due, ...rows.flatMap(({ entry }) => entry ?? [])]);
  const step = new Step(reader, aside, ends);
  const isAtEnd = !page.more && rows.length === page.rows.length;
  const followed = await step.addTransitions(rows, isAtEnd);
  const done = await step.addActs(due);
  return {
    ...{ tenants: step.entriesByTenant(), failed: step.failed, behind: step.behind, done },
    cursor: followed.at(-1)?.key ?? cursor,
    damagedRows: followed.filter(({ entry }) => entry === null).length,
    more: !isAtEnd || followed.length < rows.length || done.length < due.length || due.length === TENANTS_MAX,
  };
}

/** Rows of at most {@link TENANTS_MAX} tenants together with those that are due. */
function withFewTenants(rows: readonly FeedRow[], due: readonly DueLog[]): readonly FeedRow[] {
  const tenants = new Set(due.map(({ tenant }) => tenant));
  const end = rows.findIndex(({ entry }) => {
    if (entry === null) return false;
    // At least one, so that each step advances.
    if (tenants.size < TENANTS_MAX + 1) tenants.add(entry.tenant);
    return !tenants.has(entry.tenant);
  });
  return end < 0 ? rows : rows.slice(0, end);
}

/** Those whose log is left aside: their entries follow when the log is sound again. */
async function damagedAmong(
  reader: Reader,
  places: readonly { readonly tenant: string }[],
): Promise<ReadonlySet<string>> {
  const tenants = [...new Set(places.map(({ tenant }) => tenant))];
  const found = await Promise.all(tenants.map((tenant) => readBehindLog(reader, tenant)));
  return new Set(found.flatMap((log) => (log?.isDamaged ? [log.tenant] : [])));
}

const nameOf = ({ tenant, task }: Pick<FeedEntry, "tenant" | "task">): string => `${tenant}/${task}`;

class Step {
  readonly #reader: Reader;
  readonly #aside: ReadonlySet<string>;
  readonly #ends: ChainEnds | undefined;
  readonly #entries = new Map<string, LoggedEntry[]>();
  readonly failed = new Map<string, FleetError>();
  readonly behind = new Set<string>();
  #bytes = 0;

  constructor(reader: Reader, aside: ReadonlySet<string>, ends: ChainEnds | undefined) {
    this.#reader = reader;
    this.#aside = aside;
    this.#ends = ends;
  }

  entriesByTenant(): ReadonlyMap<string, readonly LoggedEntry[]> {
    return new Map([...this.#entries].filter(([tenant]) => !this.failed.has(tenant)));
  }

  /** Returns the rows of the feed whose entries were added. */
  async addTransitions(rows: readonly FeedRow[], isAtEnd: boolean): Promise<readonly FeedRow[]> {
    const chains = new Map<string, FeedEntry[]>();
    for (const { entry } of rows) {
      if (entry === null || this.#aside.has(entry.tenant)) continue;
      chains.set(nameOf(entry), [...(chains.get(nameOf(entry)) ?? []), entry]);
    }
    const found = await Promise.all(
      [...chains].map(async ([name, entries]) => {
        const read = await this.#read(entries[0]!, entries.length);
        return { name, tenant: entries[0]!.tenant, left: [...read.entries], more: read.more };
      }),
    );
    const leftOf = new Map(found.map(({ name, left }) => [name, left]));
    for (const [i, { entry }] of rows.entries()) {
      if (this.#bytes >= BYTES_MAX) return rows.slice(0, i);
      // None: the trail is shorter than the feed says, which the scrub reports.
      const next = entry === null ? undefined : leftOf.get(nameOf(entry))?.shift();
      if (entry !== null && next !== undefined) this.#add(entry.tenant, next);
    }
    // Before the end of the feed their transitions may follow in it.
    if (isAtEnd) for (const { tenant, more } of found) if (more) this.behind.add(tenant);
    return rows;
  }

  /** Returns the rows of the tenants whose chains are complete then. */
  async addActs(due: readonly DueLog[]): Promise<KeyValue[]> {
    const done: KeyValue[] = [];
    let left = ACTS_MAX;
    for (const { tenant, row } of due) {
      if (this.#aside.has(tenant)) {
        // It gets another row when its log is sound again. Until then it would use up the place of another tenant.
        done.push(row);
        continue;
      }
      if (left === 0 || this.#bytes >= BYTES_MAX) continue;
      const { entries, more } = await this.#read({ tenant, task: null }, left);
      for (const entry of entries) this.#add(tenant, entry);
      left -= entries.length;
      if (!more) done.push(row);
    }
    return done;
  }

  async #read(
    { tenant, task }: { readonly tenant: string; readonly task: string | null },
    limit: number,
  ): Promise<UnloggedEntries> {
    try {
      return await readUnlogged(this.#reader, { tenant, task }, limit, this.#ends);
    } catch (error) {
      if (!isOfOneLog(error)) throw error;
      this.failed.set(tenant, error);
      return { entries: [], more: false };
    }
  }

  #add(tenant: string, entry: LoggedEntry): void {
    const known = this.#entries.get(tenant) ?? [];
    known.push(entry);
    this.#entries.set(tenant, known);
    this.#bytes += entry.bytes;
  }
}
