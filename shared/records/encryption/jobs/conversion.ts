/**
 * The conversion of a store that has plain rows: one walk over all keys encrypts the plain rows on its way, in steps of a bounded size. The place of the
 * walk is written with the rows of its step, so after a crash it continues there. A walk that found plain rows is followed by another one. The store is
 * converted when a walk has found none and the words of the search index are blinded: from then on a plain row counts as damaged.
 */
import type { Bytes, KeyRange, KeyValue, Store, Tx } from "../../../store/store.ts";
import { UnreadableValue } from "../../kv/codec.ts";
import { children } from "../../kv/key-elements.ts";
import { after, KEYS_ROOT } from "../../kv/keyspace.ts";
import { requireBlinded } from "../../search/index-state.ts";
import { requireUnstated } from "../conversion-statement.ts";
import { type EncryptionState, readEncryptionState, writeEncryptionState } from "../encryption-state.ts";
import { fleetLayout } from "../layout.ts";
import { isUnreadable, sealedWith } from "../sealed-value.ts";

const ALL: KeyRange = children(KEYS_ROOT);
/** Rows that one step looks at. */
const ROWS_MAX = 500;
/** Bytes that one step writes: the rest of a page is left to the next step. */
const BYTES_MAX = 400_000;
const READ = { label: "plan_encryption", deadlineMs: 3_000 } as const;
const WRITE = { label: "encrypt_rows", deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface Converting {
  /** Without encryption: it shows which rows are plain. */
  readonly engine: Store;
  readonly store: Store;
  /** Throws when this instance may no longer convert. */
  readonly guard: (tx: Tx) => Promise<void>;
  readonly nowMs: number;
}

export interface ConversionStep {
  /** The rows that the step encrypted. */
  readonly converted: number;
  /** `waiting`: the search index is being rebuilt. */
  readonly state: "more" | "waiting" | "complete";
}

/** Throws CORRUPT if the store was converted before: then plain rows are those of another program. */
export async function stepConversion({ engine, store, guard, nowMs }: Converting): Promise<ConversionStep> {
  const state = await store.read(READ, readEncryptionState);
  if (state === null || state.state === "complete") return { converted: 0, state: "complete" };
  const { plain, last, more } = await readPage(engine, state.done);
  const { value } = await store.transact(WRITE, async (tx) => {
    await guard(tx);
    // In each step, since an older copy may be of any place of the walk.
    await requireUnstated(tx.snapshot);
    const now = await readEncryptionState(tx);
    // Another instance was faster.
    if (now === null || !isSamePlace(now, state)) return { converted: 0, state: "more" } as const;
    const converted = await encryptRows(tx, plain);
    const next = { ...now, done: last, converted: now.converted + converted, found: now.found + converted };
    if (more) writeEncryptionState(tx, next);
    else return { converted, state: await endWalk(tx, next, nowMs) };
    return { converted, state: "more" } as const;
  });
  return value;
}

async function endWalk(tx: Tx, state: EncryptionState, nowMs: number): Promise<ConversionStep["state"]> {
  const again = { ...state, done: null, found: 0 };
  const index = await requireBlinded(tx);
  const isComplete = state.found === 0 && index === "blinded";
  const completed_at = new Date(nowMs).toISOString();
  writeEncryptionState(tx, isComplete ? { ...again, state: "complete", completed_at } : again);
  if (isComplete) return "complete";
  return state.found > 0 ? "more" : "waiting";
}

/** The plain rows of the next keys. `last`: where the next step continues. */
async function readPage(engine: Store, done: Bytes | null) {
  const range = { begin: done === null ? ALL.begin : after(done), end: ALL.end };
  const { rows, more } = await engine.read(READ, (reader) => reader.getRange(range, { limit: ROWS_MAX }));
  const plain: Bytes[] = [];
  let bytes = 0;
  for (const [i, row] of rows.entries()) {
    if (!isPlain(row)) continue;
    bytes += row.key.length + row.value.length;
    if (bytes > BYTES_MAX && plain.length > 0) return { plain, last: rows[i - 1]?.key ?? done, more: true };
    plain.push(row.key);
  }
  return { plain, last: rows.at(-1)?.key ?? done, more };
}

function isPlain({ key, value }: KeyValue): boolean {
  return fleetLayout(key) !== null && sealedWith(value) === null;
}

/** Throws UnreadableValue, before it writes, for a row that the store does not believe: what stands for it must not replace it. */
async function encryptRows(tx: Tx, keys: readonly Bytes[]): Promise<number> {
  const values = await tx.getMany(keys);
  if (values.some((value) => value !== undefined && isUnreadable(value)))
    throw new UnreadableValue("a plain row cannot be encrypted, because it counts as damaged");
  let count = 0;
  for (const [i, key] of keys.entries()) {
    const value = values[i];
    if (value === undefined) continue;
    tx.set(key, value);
    count += 1;
  }
  return count;
}

function isSamePlace(a: EncryptionState, b: EncryptionState): boolean {
  const place = ({ done, converted }: EncryptionState) =>
    `${Buffer.from(done ?? []).toString("hex")}/${converted}`;
  return a.state === b.state && place(a) === place(b);
}
