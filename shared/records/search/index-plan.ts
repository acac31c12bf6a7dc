/**
 * What one step of the indexer is going to write, gathered entry by entry so that its size is known before the transaction begins.
 * Several versions of one checkpoint in a step leave the entries of the last one, and each word under the entry that brought it.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { readVersions } from "../checkpoint/versions.ts";
import { decode, encode } from "../kv/codec.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { type FeedEntry, isOfVersion, type VersionEntry } from "../outbox/feed.ts";
import {
  type Cover,
  coverKey,
  coverOf,
  decodeCover,
  encodeCover,
  INDEXES,
  writeEntries,
} from "./index-entries.ts";
import { writePostings } from "./postings.ts";
import { wordsOf } from "./tokenizer.ts";

/** Upper bound of a key without the tenant, and without what the index, the word or the agent is called. */
const KEY_BYTES = 64;

/** Which words were posted for a checkpoint. */
interface Known {
  /** Those of the version indexed last. */
  readonly words: ReadonlySet<string>;
  /** Those of earlier versions that it lacks: when one comes back it must not be posted again. */
  readonly dropped: ReadonlySet<string>;
}

interface Tracked {
  readonly id: string;
  readonly keys: TenantKeys;
  readonly before: Cover | null;
  now: Cover | null;
  /** null: it can no longer be told, so nothing is posted for it any more; it stays findable by the words it had. */
  known: Known | null;
  /** Whether `known.dropped` or its loss differs from what is written down. */
  isChanged: boolean;
}

const NOTHING: Known = { words: new Set(), dropped: new Set() };

/** What is posted for one tenant; see {@link writePostings}. */
interface TenantPostings {
  readonly keys: TenantKeys;
  readonly ids: Map<number, string>;
  readonly words: Map<string, number[]>;
}

const nameOf = ({ tenant, checkpoint }: VersionEntry): string => `${tenant}/${checkpoint}`;

function bytesOf(words: ReadonlySet<string>): number {
  let bytes = 0;
  for (const word of words) bytes += Buffer.byteLength(word) + 3;
  return bytes;
}

export class IndexPlan {
  readonly #first: number;
  readonly #tracked = new Map<string, Tracked>();
  readonly #postings = new Map<string, TenantPostings>();
  #bytes = 0;

  /** `first`: number of the first feed entry of the step. */
  constructor(first: number) {
    this.#first = first;
  }

  /** Upper bound of what {@link write} puts into its transaction. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Checkpoints that the index did not know before. */
  get added(): number {
    return [...this.#tracked.values()].filter(({ before, now }) => before === null && now !== null).length;
  }

  /** Reads what the index holds of the checkpoints that `fed` speaks of; call it before {@link add}. */
  async prepare(reader: Reader, fed: readonly FeedEntry[]): Promise<void> {
    const speaking = fed.filter(isOfVersion);
    const fresh = [...new Map(speaking.map((entry) => [nameOf(entry), entry])).values()].filter(
      (entry) => !this.#tracked.has(nameOf(entry)),
    );
    const covers = await reader.getMany(
      fresh.map(({ tenant, checkpoint }) => coverKey(tenantKeys(tenant), checkpoint)),
    );
    await Promise.all(
      fresh.map(async (entry, i) => {
        const cover = covers[i];
        const before = cover === undefined ? null : decodeCover(cover);
        this.#tracked.set(nameOf(entry), {
          id: entry.checkpoint,
          keys: tenantKeys(entry.tenant),
          before,
          now: before,
          known: before === null ? NOTHING : await readKnown(reader, entry, before),
          isChanged: false,
        });
      }),
    );
  }

  /** Takes in the version that feed entry number `entry` speaks of; versions at or below the one indexed change nothing. */
  add(fed: VersionEntry, entry: number, checkpoint: Checkpoint): void {
    const tracked = this.#tracked.get(nameOf(fed));
    if (tracked === undefined) throw new RangeError("an entry was not prepared");
    const now = coverOf(checkpoint);
    if (tracked.now !== null && tracked.now.version >= now.version) return;
    tracked.now = now;
    const keyBytes = KEY_BYTES + fed.tenant.length;
    const entryKeys = INDEXES.length * (keyBytes + Math.max(now.agent.length, now.type.length));
    this.#bytes += (tracked.before === null ? 1 : 2) * entryKeys + INDEXES.length * encodeCover(now).length;
    const next = nextKnown(tracked.known, wordsOf(checkpoint));
    this.#post(tracked, fed.tenant, entry - this.#first, next.gained);
    tracked.isChanged ||= next.isChanged;
    tracked.known = next.known;
    if (next.isChanged && next.known !== null) this.#bytes += keyBytes + bytesOf(next.known.dropped);
  }

  #post({ id, keys }: Tracked, tenant: string, offset: number, gained: readonly string[]): void {
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
      const offsets = postings.words.get(word);
      if (offsets !== undefined) offsets.push(offset);
      else {
        postings.words.set(word, [offset]);
        this.#bytes += keyBytes + Buffer.byteLength(word);
      }
    }
  }

  /** Writes everything; the index must stand where the plan began. */
  write(tx: Tx): void {
    for (const { id, keys, before, now, known, isChanged } of this.#tracked.values()) {
      if (now !== null && now !== before) writeEntries(tx, keys, id, before, now);
      if (!isChanged) continue;
      if (known?.dropped.size === 0) tx.clear(keys.dropped(id));
      else tx.set(keys.dropped(id), encode(known === null ? null : [...known.dropped].sort()));
    }
    for (const postings of this.#postings.values()) writePostings(tx, postings.keys, this.#first, postings);
  }
}

async function readKnown(
  reader: Reader,
  { tenant, task, checkpoint }: VersionEntry,
  { version }: Cover,
): Promise<Known | null> {
  const value = await reader.get(tenantKeys(tenant).dropped(checkpoint));
  const dropped = value === undefined ? [] : decode<string[] | null>(value);
  if (dropped === null) return null;
  const [found = null] = await readVersions(reader, [{ tenant, task, checkpoint, version }]);
  return found?.sound ? { words: wordsOf(found.checkpoint), dropped: new Set(dropped) } : null;
}

/** The words to post when a checkpoint that had posted `known` now holds `words`, and what is known then. */
function nextKnown(
  known: Known | null,
  words: ReadonlySet<string>,
): { gained: string[]; known: Known | null; isChanged: boolean } {
  // Written again each time: the version before may be the one whose loss is met here.
  if (known === null) return { gained: [], known: null, isChanged: true };
  const gained = [...words].filter((word) => !known.words.has(word) && !known.dropped.has(word));
  const lost = [...known.words].filter((word) => !words.has(word));
  const back = [...known.dropped].filter((word) => words.has(word));
  if (lost.length === 0 && back.length === 0) {
    return { gained, known: { words, dropped: known.dropped }, isChanged: false };
  }
  const dropped = new Set([...known.dropped, ...lost].filter((word) => !words.has(word)));
  // Words that changed so often that they no longer fit into one value are not followed any further.
  if (bytesOf(dropped) > LIMITS.inline_bytes_max) return { gained: [], known: null, isChanged: true };
  return { gained, known: { words, dropped }, isChanged: true };
}
