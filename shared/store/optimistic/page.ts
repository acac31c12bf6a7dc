/**
 * One page of a range: the stored rows of a snapshot merged with the transaction's own writes, and the part
 * of the range on which the result depends.
 */
import type { Bytes, KeyRange, KeyValue } from "../store.ts";
import type { Snapshot } from "./engine.ts";
import { keyAfter, keyBytes, keyText } from "./keys.ts";
import { type Overlay, seenThrough } from "./overlay.ts";

export interface MergedPage {
  readonly rows: KeyValue[];
  /** True for a full page. There may be no further row: only the part up to the last row was read. */
  readonly more: boolean;
  /** The part of the range up to the last row, or the whole range when it was read to its end. */
  readonly consumed: KeyRange;
  /** All stored rows of `consumed`, ascending, including those hidden by own writes. */
  readonly stored: KeyValue[];
}

/** The least number of rows in one fetch: own clears may hide many. */
const FETCH_ROWS_MIN = 16;

export function readPage(
  source: { snapshot: Snapshot; overlay: Overlay },
  range: KeyRange,
  limit: number,
  reverse: boolean,
): MergedPage {
  if (source.overlay.empty) return storedPage(source.snapshot, range, limit, reverse);
  const merge = new Merge(source.overlay, range, limit, reverse);
  let rest: KeyRange | undefined = range;
  while (rest !== undefined && !merge.full) {
    const wanted = Math.max(limit - merge.rows.length, FETCH_ROWS_MIN);
    const fetched = source.snapshot.rows(rest, wanted, reverse);
    for (const row of fetched) merge.addStored(row);
    rest = fetched.length < wanted ? undefined : beyond(rest, fetched.at(-1)!.key, reverse);
  }
  merge.addRemaining();
  const last = merge.full ? merge.rows.at(-1)!.key : undefined;
  return {
    rows: merge.rows,
    more: merge.full,
    consumed: last === undefined ? range : upTo(range, last, reverse),
    stored: reverse ? merge.stored.reverse() : merge.stored,
  };
}

/** The page of a transaction without writes of its own, as that of every reader: no row is merged, and none is read beyond the limit. */
function storedPage(snapshot: Snapshot, range: KeyRange, limit: number, reverse: boolean): MergedPage {
  const rows = snapshot.rows(range, limit, reverse);
  const isFull = rows.length >= limit;
  return {
    rows,
    more: isFull,
    consumed: isFull ? upTo(range, rows.at(-1)!.key, reverse) : range,
    stored: reverse ? rows.toReversed() : rows,
  };
}

class Merge {
  readonly rows: KeyValue[] = [];
  readonly stored: KeyValue[] = [];
  readonly #overlay: Overlay;
  readonly #limit: number;
  readonly #reverse: boolean;
  readonly #own: string[];
  #next = 0;

  constructor(overlay: Overlay, range: KeyRange, limit: number, reverse: boolean) {
    this.#overlay = overlay;
    this.#limit = limit;
    this.#reverse = reverse;
    const own = overlay.keysIn(keyText(range.begin), keyText(range.end));
    this.#own = reverse ? own.reverse() : own;
  }

  get full(): boolean {
    return this.rows.length >= this.#limit;
  }

  addStored(row: KeyValue): void {
    const text = keyText(row.key);
    while (!this.full && this.#next < this.#own.length && this.#before(this.#own[this.#next]!, text)) {
      this.#addOwn();
    }
    if (this.full) return;
    this.stored.push(row);
    if (this.#own[this.#next] === text) this.#next++;
    this.#see(row.key, text, row.value);
  }

  addRemaining(): void {
    while (!this.full && this.#next < this.#own.length) this.#addOwn();
  }

  #addOwn(): void {
    const text = this.#own[this.#next++]!;
    this.#see(keyBytes(text), text, undefined);
  }

  #see(key: Bytes, text: string, stored: Bytes | undefined): void {
    const own = this.#overlay.at(text);
    const value = seenThrough(own, stored);
    if (value === undefined) return;
    this.rows.push({ key, value: own === undefined ? value : Uint8Array.from(value) });
  }

  #before(a: string, b: string): boolean {
    return this.#reverse ? a > b : a < b;
  }
}

function beyond(range: KeyRange, last: Bytes, reverse: boolean): KeyRange {
  return reverse ? { begin: range.begin, end: last } : { begin: keyAfter(last), end: range.end };
}

function upTo(range: KeyRange, last: Bytes, reverse: boolean): KeyRange {
  return reverse ? { begin: last, end: range.end } : { begin: range.begin, end: keyAfter(last) };
}
