/**
 * The feed: every transition of every task in commit order. The search index is built from it, so a lost
 * message can delay the index but cannot make it wrong. A follower that reads after its last position skips
 * nothing.
 */
import { isId, isToken } from "../../protocol/ids.ts";
import { type Bytes, type Reader, STAMP_BYTES, type Tx } from "../../store/store.ts";
import { decode, encode, isDamage } from "../kv/codec.ts";
import { after, stampOf, systemKeys } from "../kv/keyspace.ts";

/** One transition with the checkpoint version that it made. `version` or both are null if it made none. */
export interface FeedEntry {
  readonly tenant: string;
  readonly task: string;
  readonly checkpoint: string | null;
  readonly version: number | null;
}

/** The feed entry of a transition that made a checkpoint version. */
export type VersionEntry = FeedEntry & { readonly checkpoint: string; readonly version: number };

export function isOfVersion(entry: FeedEntry): entry is VersionEntry {
  return entry.checkpoint !== null && entry.version !== null;
}

/** An entry with its key: the next read continues after any of them. */
export type FollowedEntry = FeedEntry & { readonly key: Bytes };

export interface FeedPage {
  readonly entries: readonly FollowedEntry[];
  readonly more: boolean;
}

const NO_SUFFIX = new Uint8Array(0);

export function appendFeed(tx: Tx, incarnation: number, entry: FeedEntry): void {
  const { tenant, task, checkpoint, version } = entry;
  tx.setStampedKey(
    systemKeys.feedPrefix(incarnation),
    NO_SUFFIX,
    encode([tenant, task, checkpoint, version]),
  );
}

export async function readFeed(reader: Reader, afterKey: Bytes | null, limit: number): Promise<FeedPage> {
  const { begin, end } = systemKeys.feedRange();
  const from = afterKey === null ? begin : after(afterKey);
  const { rows, more } = await reader.getRange({ begin: from, end }, { limit });
  return { entries: rows.map(({ key, value }) => ({ key, ...entryIn(value) })), more };
}

/** A row of the feed. `entry` null: it is damaged. */
export interface FeedRow {
  readonly key: Bytes;
  readonly entry: FeedEntry | null;
}

/** Reads as {@link readFeed}, for followers that must pass damaged rows. */
export async function readFeedRows(
  reader: Reader,
  afterKey: Bytes | null,
  limit: number,
): Promise<{ readonly rows: readonly FeedRow[]; readonly more: boolean }> {
  const { begin, end } = systemKeys.feedRange();
  const from = afterKey === null ? begin : after(afterKey);
  const { rows, more } = await reader.getRange({ begin: from, end }, { limit });
  return { rows: rows.map(({ key, value }) => ({ key, entry: soundEntry(value) })), more };
}

function soundEntry(value: Bytes): FeedEntry | null {
  try {
    const { tenant, task, checkpoint, version } = entryIn(value);
    const isSound = isName(tenant) && isName(task) && (checkpoint === null || isId(checkpoint));
    return isSound ? { tenant, task, checkpoint, version } : null;
  } catch (error) {
    if (isDamage(error)) return null;
    throw error;
  }
}

const isName = (value: unknown): boolean => typeof value === "string" && isToken(value);

/** null: there is no entry with this key. */
export async function readFeedEntry(reader: Reader, key: Bytes): Promise<FeedEntry | null> {
  const value = await reader.get(key);
  return value === undefined ? null : entryIn(value);
}

function entryIn(value: Bytes): FeedEntry {
  const [tenant, task, checkpoint, version] = decode<[string, string, string | null, number | null]>(value);
  return { tenant, task, checkpoint, version };
}

/** The commit position of a feed key in hex, comparable with the `position` of a committed answer. */
export function positionOf(key: Bytes | null): string {
  return key === null
    ? "00".repeat(STAMP_BYTES)
    : Buffer.from(stampOf(key)).subarray(0, STAMP_BYTES).toString("hex");
}
