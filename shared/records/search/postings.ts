/**
 * Postings: for each word, the checkpoints that hold it. A step of the indexer writes its checkpoints down once, and for each word
 * only which of them gained it, one byte each: a burst of checkpoints that share words costs one short row a word.
 *
 * A posting stands under the number of the feed entry that brought the word to its checkpoint, counted from 0 over the whole feed.
 * That number is the same however the feed was cut into steps, also after a rebuild, so a cursor may hold it. A step is named
 * by the number of its first entry. A word is posted once for a checkpoint: nothing appears twice in a list. Nothing is ever
 * taken out; a search judges the checkpoint itself.
 */
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { formatUuid, parseSeq, type TenantKeys, uuidBytes } from "../kv/keyspace.ts";

export interface Posting {
  /** Number of the feed entry. */
  readonly entry: number;
  readonly id: string;
}

/** What one step posts for one tenant. Offsets count from the step's first entry, at most 255. */
export interface StepPostings {
  /** The checkpoint of each entry that brought words. */
  readonly ids: ReadonlyMap<number, string>;
  /** For each word the entries that brought it, in the order of the feed. */
  readonly words: ReadonlyMap<string, readonly number[]>;
}

const ID_BYTES = 16;
/** An offset and an id. */
const RECORD_BYTES = 1 + ID_BYTES;
/** Lists of a word that are looked at to guess how common it is. */
const SAMPLE = 4;

export function writePostings(tx: Tx, keys: TenantKeys, step: number, { ids, words }: StepPostings): void {
  if (words.size === 0) return;
  const records = [...ids].map(([offset, id]) => Buffer.concat([Buffer.of(offset), uuidBytes(id)]));
  tx.set(keys.posted(step), encode(Buffer.concat(records)));
  for (const [word, offsets] of words) tx.set(keys.word(word, step), encode(Buffer.from(offsets)));
}

/** The checkpoints that a step wrote down, by offset. */
function idsOf(value: Bytes | undefined): Map<number, string> {
  const records = value === undefined ? Buffer.alloc(0) : decode<Bytes>(value);
  const ids = new Map<number, string>();
  for (let at = 0; at < records.length; at += RECORD_BYTES) {
    ids.set(records[at] as number, formatUuid(records.subarray(at + 1, at + RECORD_BYTES)));
  }
  return ids;
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
  const steps = rows.map(({ key }) => parseSeq(key));
  const posted = await reader.getMany(steps.map((step) => keys.posted(step)));
  const postings: Posting[] = [];
  for (const [i, { value }] of rows.entries()) {
    const step = steps[i] as number;
    const ids = idsOf(posted[i]);
    for (const offset of decode<Bytes>(value).toReversed()) {
      const id = ids.get(offset);
      const entry = step + offset;
      if (id !== undefined && (before === null || entry < before)) postings.push({ entry, id });
    }
  }
  return { postings, oldest: steps.at(-1) ?? 0, more };
}

/** How many postings a word has per feed entry, judged by its newest lists; 0 when it has none. */
async function densityOf(
  reader: Reader,
  keys: TenantKeys,
  word: string,
  feedEntries: number,
): Promise<number> {
  const { rows, more } = await reader.getRange(keys.wordRange(word), { limit: SAMPLE, reverse: true });
  const last = rows.at(-1);
  if (last === undefined) return 0;
  const count = rows.reduce((sum, { value }) => sum + decode<Bytes>(value).length, 0);
  return count / Math.max(1, feedEntries - (more ? parseSeq(last.key) : 0));
}

/**
 * The word that the fewest checkpoints seem to hold; null when one of them was never posted, for then nothing holds all of them.
 */
export async function rarestWord(
  reader: Reader,
  keys: TenantKeys,
  words: readonly string[],
  feedEntries: number,
): Promise<string | null> {
  const densities = await Promise.all(words.map((word) => densityOf(reader, keys, word, feedEntries)));
  if (densities.includes(0)) return null;
  return words[densities.indexOf(Math.min(...densities))] ?? null;
}
