/**
 * Postings: for each word, the checkpoints that contain it. A step of the indexer writes its checkpoints
 * once, and for each word only one byte for each checkpoint that gained it. So a burst of checkpoints that
 * share words costs one short row for each word.
 *
 * A posting is identified by the number of the feed entry that added the word to the checkpoint, counted from
 * 0 over the whole feed. The number does not depend on how the feed was divided into steps, also after a
 * rebuild, so a cursor may hold it. A step is identified by the number of its first entry. A word is posted
 * at most once for a checkpoint. Those of removed checkpoints are removed later (`index-prune.ts`): a search checks the checkpoint itself.
 */
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { formatUuid, uuidBytes } from "../kv/key-elements.ts";
import { parseSeq, type TenantKeys } from "../kv/keyspace.ts";

export interface Posting {
  /** The number of the feed entry. */
  readonly entry: number;
  readonly id: string;
}

/**
 * The postings of one step for one tenant. Offsets count from the first entry of the step and are at most
 * 255.
 */
export interface StepPostings {
  /** The checkpoint of each entry that added words. */
  readonly ids: ReadonlyMap<number, string>;
  /** By word. */
  readonly words: ReadonlyMap<string, WordPostings>;
}

export interface WordPostings {
  /** The word as it is in keys. */
  readonly term: string;
  /** The entries that added the word, in feed order. */
  readonly offsets: readonly number[];
}

const ID_BYTES = 16;
/** An offset and an id. */
const RECORD_BYTES = 1 + ID_BYTES;
/** The number of lists from which the frequency of a word is estimated. */
const SAMPLE_LISTS = 4;

export function writePostings(tx: Tx, keys: TenantKeys, step: number, { ids, words }: StepPostings): void {
  if (words.size === 0) return;
  tx.set(keys.posted(step), encodePosted(ids));
  for (const { term, offsets } of words.values()) tx.set(keys.word(term, step), encode(Buffer.from(offsets)));
}

/** The checkpoints of a step, by offset, as its row has them. */
export function encodePosted(ids: ReadonlyMap<number, string>): Bytes {
  const records = [...ids].map(([offset, id]) => Buffer.concat([Buffer.of(offset), uuidBytes(id)]));
  return encode(Buffer.concat(records));
}

/** Reads {@link encodePosted}; a lost row has none. */
export function postedIds(value: Bytes | undefined): Map<number, string> {
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
  /** The oldest feed entry of the page. The next page ends before it. */
  readonly oldest: number;
  readonly more: boolean;
}

/** Reads lists of postings of a word before the feed entry `before` (null: the newest lists). */
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
    const ids = postedIds(posted[i]);
    for (const offset of decode<Bytes>(value).toReversed()) {
      const id = ids.get(offset);
      const entry = step + offset;
      if (id !== undefined && (before === null || entry < before)) postings.push({ entry, id });
    }
  }
  return { postings, oldest: steps.at(-1) ?? 0, more };
}

/**
 * The estimated postings of a word per feed entry, from its newest lists; 0 for a word that was never posted.
 */
async function densityOf(
  reader: Reader,
  keys: TenantKeys,
  word: string,
  feedEntries: number,
): Promise<number> {
  const { rows, more } = await reader.getRange(keys.wordRange(word), { limit: SAMPLE_LISTS, reverse: true });
  const last = rows.at(-1);
  if (last === undefined) return 0;
  const count = rows.reduce((sum, { value }) => sum + decode<Bytes>(value).length, 0);
  return count / Math.max(1, feedEntries - (more ? parseSeq(last.key) : 0));
}

/**
 * The word with the lowest estimated frequency. null if one of the words was never posted, because then no
 * checkpoint has all of them.
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
