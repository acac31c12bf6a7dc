/**
 * Scans: the ways to read the checkpoints that may match a search, newest first. The filters determine the
 * scan. A scan yields bounded slices and can continue from the place of any candidate that it has yielded.
 *
 * The scan of a task follows the commit order of its checkpoints and needs no index. An index is scanned in
 * the time order of ids, and the postings of a word in the order in which checkpoints gained the word.
 */
import { invalid } from "../../protocol/errors.ts";
import { idTime, isCheckpointId } from "../../protocol/ids.ts";
import type { Bytes, Reader } from "../../store/store.ts";
import { readOrder } from "../checkpoint/order.ts";
import { endingId, type TenantKeys } from "../kv/keyspace.ts";
import { decodeHead } from "../task/head.ts";
import type { Filters } from "./filters.ts";
import { type Cover, decodeCover, EVERY, type IndexName, readCovers } from "./index-entries.ts";
import { rarestWord, readPostings } from "./postings.ts";

export interface Candidate {
  readonly id: string;
  readonly task: string;
  /** The indexed fields; null: unknown, so the checkpoint itself must be opened. */
  readonly cover: Cover | null;
}

export interface Slice {
  /**
   * The scanned entries, each with the place from which a scan continues after it. The candidate is null for
   * a damaged or stale entry.
   */
  readonly steps: readonly { readonly place: string; readonly candidate: Candidate | null }[];
  readonly more: boolean;
}

/** The filters, with their words as they are in the keys. */
export interface ScanFilters extends Omit<Filters, "words"> {
  readonly terms: readonly string[] | null;
}

/** `place` is the end of an earlier page; null: the scan begins with the newest entry. */
export type Scan = (place: string | null) => AsyncGenerator<Slice>;

/** Growing slice sizes: a search with early hits reads little, and a long scan reads large slices. */
function* growingSizes(first: number, max: number): Generator<number, never> {
  for (let size = first; ; size = Math.min(max, size * 2)) yield size;
}
const rowsPerSlice = () => growingSizes(32, 512);
const listsPerSlice = () => growingSizes(2, 32);

/** Indexes by expected selectivity, the most selective first. */
const BY_SELECTIVITY = ["agent", "trigger", "phase", "type", "status"] as const satisfies IndexName[];
const ALL = { name: "time", value: EVERY } as const;

/**
 * The scan for these filters: of the task, else of a word, else of the most selective index ({@link
 * BY_SELECTIVITY}).
 */
export function scanFor(reader: Reader, keys: TenantKeys, filters: ScanFilters, feedEntries: number): Scan {
  const { fields, terms } = filters;
  if (fields.task !== undefined) return scanTask(reader, keys, fields.task);
  if (terms !== null) return scanWord(reader, keys, terms, feedEntries);
  const name = BY_SELECTIVITY.find((index) => fields[index] !== undefined);
  const index = name === undefined ? ALL : { name, value: fields[name] as string };
  return scanIndex(reader, keys, index, filters);
}

function refusePlace(): never {
  throw invalid("cursor", "the cursor of this query's last page, unchanged");
}

function numberOf(place: string): number {
  const number = Number(place);
  return Number.isSafeInteger(number) && number >= 0 ? number : refusePlace();
}

function scanTask(reader: Reader, keys: TenantKeys, task: string): Scan {
  return async function* (place) {
    const head = await reader.get(keys.task(task));
    const newest = head === undefined ? 0 : decodeHead(head).seq;
    let to = place === null ? newest : numberOf(place) - 1;
    for (const limit of rowsPerSlice()) {
      if (to < 1) return;
      const places = await readOrder(reader, keys, task, { from: 1, to, limit, reverse: true });
      to -= places.length;
      // A lost entry of the order is reported by the task's history. Here it is skipped.
      const steps = places.map(({ seq, entry }) => ({
        place: String(seq),
        candidate: entry && { id: entry.id, task, cover: null },
      }));
      yield { steps, more: to >= 1 };
    }
  };
}

function scanIndex(
  reader: Reader,
  keys: TenantKeys,
  index: { name: IndexName; value: string },
  { fromMs, toMs }: ScanFilters,
): Scan {
  return async function* (place) {
    if (place !== null && !isCheckpointId(place)) refusePlace();
    const { name, value } = index;
    const begin = keys.indexFrom(name, value, fromMs);
    let end: Bytes =
      place === null ? keys.indexFrom(name, value, toMs + 1) : keys.index(name, value, idTime(place), place);
    for (const limit of rowsPerSlice()) {
      if (Buffer.compare(begin, end) >= 0) return;
      const { rows, more } = await reader.getRange({ begin, end }, { limit, reverse: true });
      const steps = rows.map((row) => {
        const id = endingId(row.key);
        const cover = decodeCover(row.value);
        return { place: id, candidate: { id, task: cover.task, cover } };
      });
      yield { steps, more };
      const last = rows.at(-1);
      if (!more || last === undefined) return;
      end = last.key;
    }
  };
}

/**
 * The place includes the scanned word: a later page must not choose another word, whose postings have another
 * order.
 */
function scanWord(reader: Reader, keys: TenantKeys, words: readonly string[], feedEntries: number): Scan {
  return async function* (place) {
    const [at, known = ""] = place === null ? [] : place.split("/");
    const word = place === null ? await rarestWord(reader, keys, words, feedEntries) : known;
    if (word === null) return;
    let before = at === undefined ? null : numberOf(at);
    for (const lists of listsPerSlice()) {
      const { postings, more, oldest } = await readPostings(reader, keys, word, { before, lists });
      const covers = await readCovers(
        reader,
        keys,
        postings.map(({ id }) => id),
      );
      const steps = postings.map(({ entry, id }, i) => {
        const cover = covers[i] ?? null;
        // A checkpoint that is no longer in the index keeps its postings. They are skipped.
        return { place: `${entry}/${word}`, candidate: cover && { id, task: cover.task, cover } };
      });
      yield { steps, more };
      if (!more) return;
      before = oldest;
    }
  };
}
