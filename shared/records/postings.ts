/**
 * Postings: for each word, the checkpoints that hold it, as lists of the checkpoints that one step of the indexer found. A burst of
 * checkpoints that share words costs one key a word, not one a checkpoint.
 *
 * A posting stands under the number of the feed entry that brought the word to its checkpoint, counted from 0 over the whole feed.
 * That number is the same however the feed was cut into steps, also after a rebuild, so a cursor may hold it. A word is posted
 * once for a checkpoint: nothing appears twice in a list. Nothing is ever taken out; a search judges the checkpoint itself.
 */
import { type Bytes, type Reader, STORE_LIMITS, type Tx } from "../store/store.ts";
import { decode, encode } from "./codec.ts";
import { formatUuid, parseSeq, type TenantKeys, uuidBytes } from "./keyspace.ts";

export interface Posting {
  /** Number of the feed entry. */
  readonly entry: number;
  readonly id: string;
}

/** On disk a posting is its distance from the list's first entry, and the id's bytes. */
type PostingRow = [offset: number, id: Bytes];

/** Upper bound of what one more posting adds to its list. */
export const POSTING_BYTES = 24;
/** Lists of a word that are looked at to guess how common it is. */
const SAMPLE = 4;

/** Writes the list of one step whose first feed entry is `first`; `postings` in the order of the feed. */
export function writePostings(
  tx: Tx,
  keys: TenantKeys,
  word: string,
  first: number,
  postings: readonly Posting[],
): void {
  const rows = postings.map(({ entry, id }): PostingRow => [entry - first, uuidBytes(id)]);
  const value = encode(rows);
  // A step has too few entries for this; a store that refuses the value would stop the index for good.
  if (value.length > STORE_LIMITS.value_bytes_max) throw new RangeError("a posting list is too long");
  tx.set(keys.word(word, first), value);
}

function listOf(key: Bytes, value: Bytes): Posting[] {
  const first = parseSeq(key);
  return decode<PostingRow[]>(value).map(([offset, id]) => ({ entry: first + offset, id: formatUuid(id) }));
}

export interface PostingPage {
  /** Newest first. */
  readonly postings: Posting[];
  /** All postings from this feed entry on are read: go on before it. */
  readonly oldest: number;
  readonly more: boolean;
}

/** Some lists of a word's postings before the feed entry `before` (null: from the newest on). */
export async function readPostings(
  reader: Reader,
  keys: TenantKeys,
  word: string,
  { before, lists }: { before: number | null; lists: number },
): Promise<PostingPage> {
  const { begin, end } = keys.wordRange(word);
  const range = { begin, end: before === null ? end : keys.word(word, before) };
  const { rows, more } = await reader.getRange(range, { limit: lists, reverse: true });
  const postings = rows
    .flatMap(({ key, value }) => listOf(key, value).reverse())
    .filter(({ entry }) => before === null || entry < before);
  const last = rows.at(-1);
  return { postings, oldest: last === undefined ? 0 : parseSeq(last.key), more };
}

/**
 * The word that the fewest checkpoints seem to hold, by how densely it was posted of late; null when one of them was never posted,
 * for then nothing holds all of them.
 */
export async function rarestWord(
  reader: Reader,
  keys: TenantKeys,
  words: readonly string[],
  feedEntries: number,
): Promise<string | null> {
  const densities = await Promise.all(
    words.map(async (word) => {
      const { postings, oldest, more } = await readPostings(reader, keys, word, {
        before: null,
        lists: SAMPLE,
      });
      const span = feedEntries - (more ? oldest : 0);
      return postings.length / Math.max(1, span);
    }),
  );
  if (densities.includes(0)) return null;
  return words[densities.indexOf(Math.min(...densities))] ?? null;
}
