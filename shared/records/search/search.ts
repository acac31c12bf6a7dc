/**
 * Search: one page of the checkpoints that match every filter, newest first. A walk proposes candidates, the index entry decides what
 * is worth opening, and the verified checkpoint decides what is answered; a corrupt one is named instead.
 *
 * A page ends when it is full, by count or by size, or when it has cost enough; so it may be short, even empty, and still have
 * a cursor, which goes on exactly behind the last candidate looked at. What a page costs does not depend on how much is stored.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { CorruptCheckpoint, QueryParams, SearchResult } from "../../protocol/queries.ts";
import type { Reader } from "../../store/store.ts";
import type { Found } from "../checkpoint/body.ts";
import { findInTask } from "../checkpoint/lookup.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { positionOf } from "../outbox/feed.ts";
import {
  checkpointMatches,
  coverMatches,
  type Filters,
  filtersOf,
  fingerprint,
  isInWindow,
} from "./filters.ts";
import { type Candidate, type Slice, walkFor } from "./index-scans.ts";
import { readIndexState } from "./index-state.ts";

/** Checkpoints opened at once. */
const OPENED_AT_ONCE = 32;

export interface CorruptHit {
  readonly task: string;
  readonly corrupt: CorruptCheckpoint;
}

/** What the page holds, and what it has cost so far. */
class Page {
  readonly checkpoints: Checkpoint[] = [];
  readonly corrupt: CorruptHit[] = [];
  /** Where the last candidate that was looked at stands. */
  place: string | null;
  #bytes = 0;
  #walked = 0;
  #opened = 0;
  #openedBytes = 0;
  readonly #limit: number;

  constructor(limit: number, place: string | null) {
    this.#limit = limit;
    this.place = place;
  }

  /** Hits that fit, by count. */
  get room(): number {
    return this.#limit - this.checkpoints.length - this.corrupt.length;
  }

  get isSpent(): boolean {
    return (
      this.#walked >= LIMITS.search_scan_rows_max ||
      this.#opened >= LIMITS.search_open_count_max ||
      this.#openedBytes >= LIMITS.search_open_bytes_max
    );
  }

  pass(place: string): void {
    this.place = place;
    this.#walked += 1;
  }

  /** False when the checkpoint matches but is too large for what is left of the reply. */
  judge(task: string, found: Found, filters: Filters): boolean {
    this.#opened += 1;
    if (!found.sound) {
      this.corrupt.push({ task, corrupt: found.corrupt });
      return true;
    }
    this.#openedBytes += found.bytes;
    if (!checkpointMatches(found.checkpoint, filters)) return true;
    if (this.checkpoints.length > 0 && this.#bytes + found.bytes > LIMITS.reply_bytes_max) return false;
    this.checkpoints.push(found.checkpoint);
    this.#bytes += found.bytes;
    return true;
  }
}

export interface SearchHits extends Omit<SearchResult, "corrupt"> {
  readonly corrupt: readonly CorruptHit[];
}

/** Throws INVALID for a cursor of another search, a range that ends before it begins, or a text without words. */
export async function search(
  reader: Reader,
  tenant: string,
  query: QueryParams<"search">,
): Promise<SearchHits> {
  const filters = filtersOf(query);
  const kind = `search/${tenant}/${fingerprint(filters)}`;
  const from = query.cursor === undefined ? null : openCursor(kind, query.cursor);
  const state = await readIndexState(reader);
  const keys = tenantKeys(tenant);
  const page = new Page(query.limit, from);
  const isEnd = await fill(page, reader, keys, filters, walkFor(reader, keys, filters, state.entries)(from));
  return {
    checkpoints: page.checkpoints,
    corrupt: page.corrupt,
    ...(!isEnd && page.place !== null && { cursor: sealCursor(kind, page.place) }),
    indexed_through: positionOf(state.cursor),
    rebuilding: state.state === "rebuilding",
  };
}

/** Returns true when there is nothing behind the page. */
async function fill(
  page: Page,
  reader: Reader,
  keys: TenantKeys,
  filters: Filters,
  walk: AsyncGenerator<Slice>,
): Promise<boolean> {
  for await (const { steps, more } of walk) {
    for (let next = 0; next < steps.length; ) {
      if (page.room === 0 || page.isSpent) return false;
      const { end, wanted } = chunk(steps, next, Math.min(OPENED_AT_ONCE, page.room), filters);
      const found = await Promise.all(wanted.map(({ task, id }) => findInTask(reader, keys, task, id)));
      for (const { place, candidate } of steps.slice(next, end)) {
        const at = candidate === null ? -1 : wanted.indexOf(candidate);
        if (at >= 0 && !page.judge(wanted[at]!.task, found[at]!, filters)) return false;
        page.pass(place);
      }
      next = end;
    }
    if (!more) return true;
    if (page.room === 0 || page.isSpent) return false;
  }
  return true;
}

/** The candidates worth opening from step `begin` on, at most `most`, and the step after them. */
function chunk(
  steps: Slice["steps"],
  begin: number,
  most: number,
  filters: Filters,
): { end: number; wanted: Candidate[] } {
  const wanted: Candidate[] = [];
  let end = begin;
  while (end < steps.length && wanted.length < most) {
    const candidate = steps[end]?.candidate;
    if (candidate && mayMatch(candidate, filters)) wanted.push(candidate);
    end += 1;
  }
  return { end, wanted };
}

function mayMatch({ id, cover }: Candidate, filters: Filters): boolean {
  return isInWindow(id, filters) && (cover === null || coverMatches(cover, filters));
}
