/**
 * Walks: the ways through the store to the checkpoints that may match a search, newest first. Each is chosen by what is asked for,
 * yields a bounded slice at a time, and can go on from the place of any candidate it has yielded.
 *
 * The walk of a task follows the order in which its checkpoints were committed and needs no index. The others follow the indexer:
 * by the time that the ids carry, and a word's walk by the order in which the word came to the checkpoints.
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
  /** What the index knows of it; null: nothing is known, the checkpoint itself must be looked at. */
  readonly cover: Cover | null;
}

export interface Slice {
  /** Everything walked over, with the place to go on from after it; null where there is nothing to look at. */
  readonly steps: readonly { readonly place: string; readonly candidate: Candidate | null }[];
  readonly more: boolean;
}

/** `place`: where an earlier page ended; null: from the newest on. */
export type Walk = (place: string | null) => AsyncGenerator<Slice>;

/** Slices grow: a search that finds at once reads little, one that must look far reads in large pieces. */
function* growing(first: number, most: number): Generator<number, never> {
  for (let size = first; ; size = Math.min(most, size * 2)) yield size;
}
const rowsAtOnce = () => growing(32, 512);
const listsAtOnce = () => growing(2, 32);

/** Indexes in the order in which they are likely to leave little to walk. */
const BY_NARROWNESS = ["agent", "trigger", "phase", "type", "status"] as const satisfies IndexName[];
const EVERYTHING = { name: "time", value: EVERY } as const;

/** The walk for these filters: a task, else words, else the first index that is asked for in the order of {@link BY_NARROWNESS}. */
export function walkFor(reader: Reader, keys: TenantKeys, filters: Filters, feedEntries: number): Walk {
  const { fields, words } = filters;
  if (fields.task !== undefined) return walkTask(reader, keys, fields.task);
  if (words !== null) return walkWord(reader, keys, words, feedEntries);
  const name = BY_NARROWNESS.find((index) => fields[index] !== undefined);
  const index = name === undefined ? EVERYTHING : { name, value: fields[name] as string };
  return walkIndex(reader, keys, index, filters);
}

function badPlace(): never {
  throw invalid("cursor", "the cursor of this query's last page, unchanged");
}

function numberOf(place: string): number {
  const number = Number(place);
  return Number.isSafeInteger(number) && number >= 0 ? number : badPlace();
}

function walkTask(reader: Reader, keys: TenantKeys, task: string): Walk {
  return async function* (place) {
    const head = await reader.get(keys.task(task));
    const newest = head === undefined ? 0 : decodeHead(head).seq;
    let to = place === null ? newest : numberOf(place) - 1;
    for (const limit of rowsAtOnce()) {
      if (to < 1) return;
      const places = await readOrder(reader, keys, task, { from: 1, to, limit, reverse: true });
      to -= places.length;
      // A place whose entry is lost is named by the task's history; here it leads nowhere.
      const steps = places.map(({ seq, entry }) => ({
        place: String(seq),
        candidate: entry && { id: entry.id, task, cover: null },
      }));
      yield { steps, more: to >= 1 };
    }
  };
}

function walkIndex(
  reader: Reader,
  keys: TenantKeys,
  index: { name: IndexName; value: string },
  { fromMs, toMs }: Filters,
): Walk {
  return async function* (place) {
    if (place !== null && !isCheckpointId(place)) badPlace();
    const { name, value } = index;
    const begin = keys.indexFrom(name, value, fromMs);
    let end: Bytes =
      place === null ? keys.indexFrom(name, value, toMs + 1) : keys.index(name, value, idTime(place), place);
    for (const limit of rowsAtOnce()) {
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

/** The word walked is part of the place: a later page must not choose another, whose order would be another. */
function walkWord(reader: Reader, keys: TenantKeys, words: readonly string[], feedEntries: number): Walk {
  return async function* (place) {
    const [at, known = ""] = place === null ? [] : place.split("/");
    const word = place === null ? await rarestWord(reader, keys, words, feedEntries) : known;
    if (word === null) return;
    let before = at === undefined ? null : numberOf(at);
    for (const lists of listsAtOnce()) {
      const { postings, more, oldest } = await readPostings(reader, keys, word, { before, lists });
      const covers = await readCovers(
        reader,
        keys,
        postings.map(({ id }) => id),
      );
      const steps = postings.map(({ entry, id }, i) => {
        const cover = covers[i] ?? null;
        // A checkpoint that left the index keeps its postings; they lead nowhere.
        return { place: `${entry}/${word}`, candidate: cover && { id, task: cover.task, cover } };
      });
      yield { steps, more };
      if (!more) return;
      before = oldest;
    }
  };
}
