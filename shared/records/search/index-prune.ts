/**
 * Removes the words of removed checkpoints from the postings. A list of postings names its checkpoints by step and offset, so the words of
 * one checkpoint are found only by a pass over all lists. A pass runs after removals, in batches of a bounded size, and its place is in
 * the store: after a crash it continues there. A removal during a pass leads to another one.
 *
 * The caller is the indexer, which works under a lease, so no posting is written between the plan of a batch and its write.
 */

import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Bytes, KeyValue, Reader, Store, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { readCount } from "../kv/counters.ts";
import { after, parseSeq, systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { readTransitions } from "../outbox/outbox.ts";
import { readCovers } from "./index-entries.ts";
import { readIndexState } from "./index-state.ts";
import { encodePosted, postedIds } from "./postings.ts";

const DEADLINE_MS = 3_000;
/** Lists in one batch. */
const ROWS_MAX = 128;

interface PrunePlace {
  readonly tenant: string;
  /** First the lists of all words, then the checkpoints of the steps, which the lists need until then. */
  readonly stage: "words" | "steps";
  /** The last key that is done. null: the stage begins. */
  readonly done: Bytes | null;
}

interface PruneState {
  /** The removals before the last complete pass began. */
  readonly removed: number;
  readonly endedMs: number;
  readonly current: (PrunePlace & { readonly removed: number }) | null;
}

export interface IndexPruning {
  readonly guard: (tx: Tx) => Promise<void>;
  readonly nowMs: number;
  /** No pass begins earlier after the end of the last one. */
  readonly everyMs: number;
}

export interface PruneStep {
  /** The postings that the batch removed. */
  readonly removed: number;
  readonly hasEnded: boolean;
}

const pruneKey = (): Bytes => systemKeys.meta("index_prune");
const IDLE: PruneState = { removed: 0, endedMs: 0, current: null };

async function readPruneState(reader: Reader): Promise<PruneState> {
  const value = await reader.get(pruneKey());
  return value === undefined ? IDLE : decode<PruneState>(value);
}

interface Batch {
  readonly changes: readonly { readonly key: Bytes; readonly value: Bytes | null }[];
  readonly removed: number;
  readonly next: PruneState;
}

/** Makes one batch. null: there is nothing to do now. */
export async function stepPrune(
  store: Store,
  { guard, nowMs, everyMs }: IndexPruning,
): Promise<PruneStep | null> {
  const reading = { label: "plan_index_prune", deadlineMs: DEADLINE_MS };
  const batch = await store.read(reading, async (reader) => {
    const state = await readPruneState(reader);
    if (!(await isIndexed(reader))) return null;
    const removed = await readCount(reader, "removed");
    if (state.current !== null) return planBatch(reader, state, state.current, nowMs);
    if (removed === state.removed || Math.abs(nowMs - state.endedMs) < everyMs) return null;
    const first = { tenant: DEFAULT_TENANT, stage: "words", done: null, removed } as const;
    return planBatch(reader, state, first, nowMs);
  });
  if (batch === null) return null;
  const writing = {
    label: "write_index_prune",
    deadlineMs: DEADLINE_MS,
    priority: "batch",
    onUnknown: "safe",
  } as const;
  await store.transact(writing, async (tx) => {
    await guard(tx);
    // A rebuild that was requested meanwhile clears the lists itself.
    if ((await readIndexState(tx)).state !== "ready") return;
    for (const { key, value } of batch.changes) {
      if (value === null) tx.clear(key);
      else tx.set(key, value);
    }
    tx.set(pruneKey(), encode(batch.next));
  });
  return { removed: batch.removed, hasEnded: batch.next.current === null };
}

/** Until the index has followed every removal, it still has entries of removed checkpoints. */
async function isIndexed(reader: Reader): Promise<boolean> {
  const { state, clearing, entries } = await readIndexState(reader);
  return state === "ready" && clearing === null && entries >= (await readTransitions(reader));
}

async function planBatch(
  reader: Reader,
  state: PruneState,
  at: NonNullable<PruneState["current"]>,
  nowMs: number,
): Promise<Batch> {
  const keys = tenantKeys(at.tenant);
  const { begin, end } = at.stage === "words" ? keys.words() : keys.postedSteps();
  const range = { begin: at.done === null ? begin : after(at.done), end };
  const { rows, more } = await reader.getRange(range, { limit: ROWS_MAX });
  const { changes, removed } = await (at.stage === "words" ? pruneWords : pruneSteps)(reader, keys, rows);
  const last = rows.at(-1);
  if (more && last !== undefined)
    return { changes, removed, next: { ...state, current: { ...at, done: last.key } } };
  if (at.stage === "words")
    return { changes, removed, next: { ...state, current: { ...at, stage: "steps", done: null } } };
  const tenant = await tenantAfter(reader, at.tenant);
  const next: PruneState =
    tenant === null
      ? { removed: at.removed, endedMs: nowMs, current: null }
      : { ...state, current: { tenant, stage: "words", done: null, removed: at.removed } };
  return { changes, removed, next };
}

type Pruned = Pick<Batch, "changes" | "removed">;

/** An offset without a checkpoint is left of a removal during the last pass. */
async function pruneWords(reader: Reader, keys: TenantKeys, rows: readonly KeyValue[]): Promise<Pruned> {
  const steps = [...new Set(rows.map(({ key }) => parseSeq(key)))];
  const values = await reader.getMany(steps.map((step) => keys.posted(step)));
  const idsOf = new Map(steps.map((step, i) => [step, postedIds(values[i])]));
  const isLiving = await livingAmong(reader, keys, [...idsOf.values()]);
  const changes: { key: Bytes; value: Bytes | null }[] = [];
  let removed = 0;
  for (const { key, value } of rows) {
    const ids = idsOf.get(parseSeq(key));
    const offsets = [...decode<Bytes>(value)];
    const kept = offsets.filter((offset) => isLiving(ids?.get(offset)));
    if (kept.length === offsets.length) continue;
    removed += offsets.length - kept.length;
    changes.push({ key, value: kept.length === 0 ? null : encode(Buffer.from(kept)) });
  }
  return { changes, removed };
}

async function pruneSteps(reader: Reader, keys: TenantKeys, rows: readonly KeyValue[]): Promise<Pruned> {
  const steps = rows.map(({ key, value }) => ({ key, ids: postedIds(value) }));
  const isLiving = await livingAmong(
    reader,
    keys,
    steps.map(({ ids }) => ids),
  );
  const changes = steps.flatMap(({ key, ids }) => {
    const kept = new Map([...ids].filter(([, id]) => isLiving(id)));
    if (kept.size === ids.size) return [];
    return [{ key, value: kept.size === 0 ? null : encodePosted(kept) }];
  });
  return { changes, removed: 0 };
}

/** A checkpoint without an entry in the index is removed. */
async function livingAmong(
  reader: Reader,
  keys: TenantKeys,
  all: readonly ReadonlyMap<number, string>[],
): Promise<(id: string | undefined) => boolean> {
  const ids = [...new Set(all.flatMap((some) => [...some.values()]))];
  const covers = await readCovers(reader, keys, ids);
  const living = new Set(ids.filter((_, i) => covers[i] !== null));
  return (id) => id !== undefined && living.has(id);
}
