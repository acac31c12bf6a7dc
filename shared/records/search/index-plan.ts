/**
 * The planned writes of one step of the indexer, collected entry by entry so that their size is known before
 * the transaction begins. Of several versions of one checkpoint in a step, the last one determines the index
 * entries. Each word is posted under the feed entry that added it.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { readVersions } from "../checkpoint/versions.ts";
import { type TermOf, termsOf } from "../encryption/blind-terms.ts";
import { decode, encode } from "../kv/codec.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { type FeedEntry, isOfVersion, type VersionEntry } from "../outbox/feed.ts";
import {
  type Cover,
  coverKey,
  coverOf,
  decodeCover,
  encodeCover,
  entryKeys,
  INDEXES,
  type Indexed,
  writeEntries,
} from "./index-entries.ts";
import { writePostings } from "./postings.ts";
import { wordsOf } from "./tokenizer.ts";

/** The upper bound of a key without its tenant, index name, word or agent. */
const KEY_BYTES = 64;

/** The words that are posted for a checkpoint. */
interface PostedWords {
  /** The words of the last indexed version. */
  readonly words: readonly string[];
  /** The words of earlier versions that the last one does not have. They must not be posted a second time. */
  readonly dropped: ReadonlySet<string>;
}

interface Tracked {
  readonly id: string;
  readonly keys: TenantKeys;
  readonly termOf: TermOf;
  readonly before: Cover | null;
  now: Indexed | null;
  /**
   * null: no longer known, so no further words are posted. The checkpoint can still be found by the posted
   * ones.
   */
  posted: PostedWords | null;
  /** Whether `posted.dropped`, or its loss, must be written. */
  isChanged: boolean;
}

const NO_WORDS: PostedWords = { words: [], dropped: new Set() };

/** The postings of one tenant; see {@link writePostings}. */
interface TenantPostings {
  readonly keys: TenantKeys;
  readonly ids: Map<number, string>;
  readonly words: Map<string, { readonly term: string; readonly offsets: number[] }>;
}

export const nameOf = ({ tenant, checkpoint }: Pick<VersionEntry, "tenant" | "checkpoint">): string =>
  `${tenant}/${checkpoint}`;

function bytesOf(words: Iterable<string>): number {
  let bytes = 0;
  for (const word of words) bytes += Buffer.byteLength(word) + 3;
  return bytes;
}

export class IndexPlan {
  readonly #first: number;
  readonly #isBlinded: boolean;
  readonly #tracked = new Map<string, Tracked>();
  readonly #postings = new Map<string, TenantPostings>();
  /** By tenant. */
  readonly #terms = new Map<string, TermOf>();
  #bytes = 0;

  /** `first` is the number of the first feed entry of the step. */
  constructor(first: number, isBlinded: boolean) {
    this.#first = first;
    this.#isBlinded = isBlinded;
  }

  /** The upper bound of the bytes that {@link write} writes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The number of checkpoints that were not indexed before, without those that no longer are. */
  get added(): number {
    const changes = [...this.#tracked.values()];
    return changes.reduce((sum, { before, now }) => sum + Number(now !== null) - Number(before !== null), 0);
  }

  /** Reads the indexed state of the checkpoints of `fed`. Call it before {@link add}. */
  async prepare(reader: Reader, fed: readonly FeedEntry[]): Promise<void> {
    const changes = fed.filter(isOfVersion);
    const fresh = [...new Map(changes.map((entry) => [nameOf(entry), entry])).values()].filter(
      (entry) => !this.#tracked.has(nameOf(entry)),
    );
    const covers = await reader.getMany(
      fresh.map(({ tenant, checkpoint }) => coverKey(tenantKeys(tenant), checkpoint)),
    );
    const before = covers.map((value) => (value === undefined ? null : { cover: decodeCover(value), value }));
    const posted = await Promise.all(
      fresh.map((entry, i) => {
        const indexed = before[i] ?? null;
        return indexed === null ? NO_WORDS : readPosted(reader, entry, indexed.cover);
      }),
    );
    for (const [i, entry] of fresh.entries()) {
      this.#tracked.set(nameOf(entry), {
        id: entry.checkpoint,
        keys: tenantKeys(entry.tenant),
        termOf: this.#terms.get(entry.tenant) ?? (await this.#findTerms(reader, entry.tenant)),
        before: before[i]?.cover ?? null,
        now: before[i] ?? null,
        posted: posted[i] ?? null,
        isChanged: false,
      });
    }
  }

  async #findTerms(reader: Reader, tenant: string): Promise<TermOf> {
    const termOf = await termsOf(reader, tenant, { isBlinded: this.#isBlinded, use: "write" });
    this.#terms.set(tenant, termOf);
    return termOf;
  }

  /**
   * Adds the version of feed entry number `entry`. A version that is not newer than the indexed one changes
   * nothing.
   */
  add(fed: VersionEntry, entry: number, checkpoint: Checkpoint): void {
    const tracked = this.#tracked.get(nameOf(fed));
    if (tracked === undefined) throw new RangeError("a feed entry was not prepared");
    const now = coverOf(checkpoint);
    if (tracked.now !== null && tracked.now.cover.version >= now.version) return;
    const value = encodeCover(now);
    tracked.now = { cover: now, value };
    const keyBytes = KEY_BYTES + fed.tenant.length;
    const entryKeys = INDEXES.length * (keyBytes + Math.max(now.agent.length, now.type.length));
    this.#bytes += (tracked.before === null ? 1 : 2) * entryKeys + INDEXES.length * value.length;
    const next = nextPosted(tracked.posted, wordsOf(checkpoint));
    this.#post(tracked, fed.tenant, entry - this.#first, next.gained);
    tracked.isChanged ||= next.isChanged;
    tracked.posted = next.posted;
    if (next.isChanged && next.posted !== null) this.#bytes += keyBytes + bytesOf(next.posted.dropped);
  }

  /** Removes the entries of a removed checkpoint. */
  remove(fed: VersionEntry): void {
    const tracked = this.#tracked.get(nameOf(fed));
    if (tracked === undefined) throw new RangeError("a feed entry was not prepared");
    if (tracked.now === null) return;
    const { agent, type } = tracked.now.cover;
    tracked.now = null;
    tracked.posted = NO_WORDS;
    tracked.isChanged = true;
    this.#bytes += INDEXES.length * (KEY_BYTES + fed.tenant.length + Math.max(agent.length, type.length));
  }

  #post({ id, keys, termOf }: Tracked, tenant: string, offset: number, gained: readonly string[]): void {
    if (gained.length === 0) return;
    let postings = this.#postings.get(tenant);
    if (postings === undefined) {
      postings = { keys, ids: new Map(), words: new Map() };
      this.#postings.set(tenant, postings);
    }
    postings.ids.set(offset, id);
    const keyBytes = KEY_BYTES + tenant.length;
    this.#bytes += keyBytes + gained.length;
    for (const word of gained) {
      const known = postings.words.get(word);
      if (known !== undefined) known.offsets.push(offset);
      else {
        const term = termOf(word);
        postings.words.set(word, { term, offsets: [offset] });
        this.#bytes += keyBytes + Buffer.byteLength(term);
      }
    }
  }

  /** Writes the plan. The index must be in the state in which the plan was made. */
  write(tx: Tx): void {
    for (const { id, keys, before, now, posted, isChanged } of this.#tracked.values()) {
      if (now !== null && now.cover !== before) writeEntries(tx, keys, id, before, now);
      if (now === null && before !== null) for (const key of entryKeys(keys, id, before)) tx.clear(key);
      if (!isChanged) continue;
      if (posted?.dropped.size === 0) tx.clear(keys.dropped(id));
      else tx.set(keys.dropped(id), encode(posted === null ? null : [...posted.dropped].sort()));
    }
    for (const postings of this.#postings.values()) writePostings(tx, postings.keys, this.#first, postings);
  }
}

async function readPosted(
  reader: Reader,
  { tenant, task, checkpoint }: VersionEntry,
  { version }: Cover,
): Promise<PostedWords | null> {
  const value = await reader.get(tenantKeys(tenant).dropped(checkpoint));
  const dropped = value === undefined ? [] : decode<string[] | null>(value);
  if (dropped === null) return null;
  const [found = null] = await readVersions(reader, [{ tenant, task, checkpoint, version }]);
  return found?.sound ? { words: wordsOf(found.checkpoint), dropped: new Set(dropped) } : null;
}

/**
 * The words to post when a checkpoint with `posted` words gets a version with `words`, and the posted words
 * after that.
 */
function nextPosted(
  posted: PostedWords | null,
  words: readonly string[],
): { gained: readonly string[]; posted: PostedWords | null; isChanged: boolean } {
  // Always written: the posted words may be unknown only because the indexed version is corrupt, which no
  // record states yet.
  if (posted === null) return { gained: [], posted: null, isChanged: true };
  const { dropped } = posted;
  // Most checkpoints are new.
  if (posted.words.length === 0 && dropped.size === 0)
    return { gained: words, posted: { words, dropped }, isChanged: false };
  const before = new Set(posted.words);
  const now = new Set(words);
  const gained = words.filter((word) => !before.has(word) && !dropped.has(word));
  const lost = posted.words.filter((word) => !now.has(word));
  const returned = [...dropped].filter((word) => now.has(word));
  if (lost.length === 0 && returned.length === 0)
    return { gained, posted: { words, dropped }, isChanged: false };
  const unused = new Set([...dropped, ...lost].filter((word) => !now.has(word)));
  // Dropped words that no longer fit into one value are not tracked any further.
  if (bytesOf(unused) > LIMITS.inline_bytes_max) return { gained: [], posted: null, isChanged: true };
  return { gained, posted: { words, dropped: unused }, isChanged: true };
}
