// Keys and short calls for the cases. Each case has its own key space, because some engines keep the data of
// earlier runs.

import { randomBytes } from "node:crypto";
import type { Bytes, CommitResult, KeyRange, Reader, Store, Tx } from "../../../shared/store/store.ts";

export interface Space {
  readonly prefix: Bytes;
  key(name: string): Bytes;
  /** The keys from `from` to before `to`; without arguments all keys of the case. */
  range(from?: string, to?: string): KeyRange;
  /** The name of a key. */
  name(key: Bytes): string;
}

const BEGIN = "contract/";
const RANDOM_BYTES = 8;
export const SPACE_BYTES = BEGIN.length + RANDOM_BYTES;

/** The names to which cases add. A store that encrypts its other rows cannot encrypt these. */
const COUNTERS = ["count", "k", "m", "max", "n", "sum"];

export function isCounter(key: Bytes): boolean {
  return COUNTERS.includes(Buffer.from(key.subarray(SPACE_BYTES)).toString());
}

export function testSpace(): Space {
  const prefix = Buffer.concat([Buffer.from(BEGIN), randomBytes(RANDOM_BYTES)]);
  const key = (name: string) => Buffer.concat([prefix, Buffer.from(name)]);
  return {
    prefix,
    key,
    range: (from, to) => ({
      begin: from === undefined ? prefix : key(from),
      end: to === undefined ? Buffer.concat([prefix, Buffer.of(0xff)]) : key(to),
    }),
    name: (full) => Buffer.from(full.subarray(prefix.length)).toString(),
  };
}

export const text = (value: string): Bytes => Buffer.from(value);
export const textOf = (value: Bytes | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value).toString();

export function i64(value: bigint): Bytes {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(value);
  return bytes;
}
export const i64Of = (bytes: Bytes | undefined): bigint | undefined =>
  bytes === undefined ? undefined : Buffer.from(bytes).readBigInt64LE();

const DEADLINE_MS = 20_000;

export function write<T>(store: Store, body: (tx: Tx) => Promise<T>): Promise<CommitResult<T>> {
  return store.transact({ label: "contract", deadlineMs: DEADLINE_MS, onUnknown: "safe" }, body);
}

export function once<T>(store: Store, body: (tx: Tx) => Promise<T>): Promise<CommitResult<T>> {
  const options = {
    label: "contract",
    deadlineMs: DEADLINE_MS,
    onUnknown: "unsafe",
    maxAttempts: 1,
  } as const;
  return store.transact(options, body);
}

export function look<T>(store: Store, body: (reader: Reader) => Promise<T>): Promise<T> {
  return store.read({ label: "contract", deadlineMs: DEADLINE_MS }, body);
}

export const stored = (store: Store, key: Bytes): Promise<string | undefined> =>
  look(store, async (reader) => textOf(await reader.get(key)));

/** The names and values of a range, as `name=value`. */
export async function listing(
  reader: Reader,
  space: Space,
  range: KeyRange,
  options: { limit?: number; reverse?: boolean } = {},
): Promise<string[]> {
  const { rows } = await reader.getRange(range, { limit: 1_000, ...options });
  return rows.map(({ key, value }) => `${space.name(key)}=${textOf(value)}`);
}

export async function fill(store: Store, space: Space, names: readonly string[]): Promise<void> {
  await write(store, async (tx) => {
    for (const name of names) tx.set(space.key(name), text(name));
  });
}

/**
 * Runs `other` completely inside the transaction, so that it commits between the reads and the commit of this
 * one.
 */
export async function overtaken<T>(
  store: Store,
  body: (tx: Tx) => Promise<T>,
  other: (tx: Tx) => Promise<unknown>,
): Promise<CommitResult<T>> {
  return await once(store, async (tx) => {
    const value = await body(tx);
    await write(store, other);
    return value;
  });
}
