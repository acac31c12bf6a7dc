/**
 * Search: one page of the checkpoints that match all filters, newest first. A scan yields candidates. The
 * index entry decides whether a candidate is opened, and the verified checkpoint decides whether it is a hit.
 * A corrupt checkpoint is reported instead.
 *
 * A page ends when it is full, by count or by size, or when its cost limit is reached. So it may be short,
 * even empty, and still have a cursor, which continues directly after the last examined candidate. The cost
 * of a page does not depend on the size of the store.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CorruptCheckpoint, SearchResult } from "../../protocol/checkpoint-pages.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader } from "../../store/store.ts";
import type { Found } from "../checkpoint/body.ts";
import { findInTask } from "../checkpoint/lookup.ts";
import { termsOf } from "../encryption/blind-terms.ts";
import { signaturesBeside } from "../esign/beside.ts";
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
import { type Candidate, type Slice, scanFor } from "./index-scans.ts";
import { readIndexState } from "./index-state.ts";

/** The number of checkpoints opened in parallel. */
const PARALLEL_OPENS = 32;

export interface CorruptHit {
  readonly task: string;
  readonly corrupt: CorruptCheckpoint;
}

/** The content of the page and its cost so far. */
class Page {
  readonly checkpoints: Checkpoint[] = [];
  readonly corrupt: CorruptHit[] = [];
  /** The place of the last examined candidate. */
  place: string | null;
  #bytes = 0;
  #scanned = 0;
  #opened = 0;
  #openedBytes = 0;
  readonly #limit: number;

  constructor(limit: number, place: string | null) {
    this.#limit = limit;
    this.place = place;
  }

  /** The number of further hits that fit. */
  get room(): number {
    return this.#limit - this.checkpoints.length - this.corrupt.length;
  }

  get isSpent(): boolean {
    return (
      this.#scanned >= LIMITS.search_scan_rows_max ||
      this.#opened >= LIMITS.search_open_count_max ||
      this.#openedBytes >= LIMITS.search_open_bytes_max
    );
  }

  pass(place: string): void {
    this.place = place;
    this.#scanned += 1;
  }

  /** Adds the checkpoint if it is a hit. Returns false if the hit does not fit into the rest of the reply. */
  examine(task: string, found: Found, filters: Filters): boolean {
    this.#opened += 1;
    // The index still has a checkpoint that was removed just now.
    if (!found.sound && found.removed !== undefined) return true;
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

/**
 * Throws INVALID for a cursor of another search, a range that ends before it begins, or a text without words.
 */
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
  const termOf = await termsOf(reader, tenant, { isBlinded: state.blinded ?? false, use: "search" });
  const terms = filters.words?.map(termOf) ?? null;
  const scan = scanFor(reader, keys, { ...filters, terms }, state.entries);
  const isEnd = await fill(page, reader, keys, filters, scan(from));
  return {
    checkpoints: page.checkpoints,
    corrupt: page.corrupt,
    ...(await signaturesBeside(reader, tenant, page.checkpoints)),
    ...(!isEnd && page.place !== null && { cursor: sealCursor(kind, page.place) }),
    indexed_through: positionOf(state.cursor),
    rebuilding: state.state === "rebuilding",
  };
}

/** Returns true if nothing follows the page. */
async function fill(
  page: Page,
  reader: Reader,
  keys: TenantKeys,
  filters: Filters,
  scan: AsyncGenerator<Slice>,
): Promise<boolean> {
  for await (const { steps, more } of scan) {
    for (let next = 0; next < steps.length; ) {
      if (page.room === 0 || page.isSpent) return false;
      const { end, wanted } = chunk(steps, next, Math.min(PARALLEL_OPENS, page.room), filters);
      const found = await Promise.all(wanted.map(({ task, id }) => findInTask(reader, keys, task, id)));
      for (const { place, candidate } of steps.slice(next, end)) {
        const at = candidate === null ? -1 : wanted.indexOf(candidate);
        if (at >= 0 && !page.examine(wanted[at]!.task, found[at]!, filters)) return false;
        page.pass(place);
      }
      next = end;
    }
    if (!more) return true;
    if (page.room === 0 || page.isSpent) return false;
  }
  return true;
}

/** At most `max` candidates to open, from step `begin`, and the step after them. */
function chunk(
  steps: Slice["steps"],
  begin: number,
  max: number,
  filters: Filters,
): { end: number; wanted: Candidate[] } {
  const wanted: Candidate[] = [];
  let end = begin;
  while (end < steps.length && wanted.length < max) {
    const candidate = steps[end]?.candidate;
    if (candidate && mayMatch(candidate, filters)) wanted.push(candidate);
    end += 1;
  }
  return { end, wanted };
}

function mayMatch({ id, cover }: Candidate, filters: Filters): boolean {
  return isInWindow(id, filters) && (cover === null || coverMatches(cover, filters));
}
