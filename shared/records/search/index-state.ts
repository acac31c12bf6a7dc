/**
 * Where the index stands: how far it has followed the feed, and whether it is complete. One small record, written together with the
 * entries that it vouches for, so that after a crash nothing is indexed twice and nothing is skipped.
 */
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { IndexStatus } from "../../protocol/queries.ts";
import type { Bytes, Reader, Store, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { readCount } from "../kv/counters.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { positionOf } from "../outbox/feed.ts";
import { readTransitions } from "../outbox/outbox.ts";

export interface IndexState {
  readonly state: "ready" | "rebuilding";
  /** While a rebuild clears the old entries: the tenant it has come to. null: nothing is left to clear. */
  readonly clearing: string | null;
  /** Key of the last feed entry that is indexed; null: none is. */
  readonly cursor: Bytes | null;
  /** Feed entries followed, which is the number of the next one. */
  readonly entries: number;
  /** Checkpoints indexed. */
  readonly indexed: number;
}

const EMPTY: IndexState = { state: "ready", clearing: null, cursor: null, entries: 0, indexed: 0 };

const WAIT_POLL_MS = 200;
const READ_DEADLINE_MS = 1_000;

export const indexKey = (): Bytes => systemKeys.meta("index");

export async function readIndexState(reader: Reader): Promise<IndexState> {
  const value = await reader.get(indexKey());
  return value === undefined ? EMPTY : decode<IndexState>(value);
}

export function writeIndexState(tx: Tx, state: IndexState): void {
  tx.set(indexKey(), encode(state));
}

/** Begins to build the index anew from the feed; changes nothing while that is under way already. */
export async function requestRebuild(tx: Tx): Promise<void> {
  const { state } = await readIndexState(tx);
  if (state === "rebuilding") return;
  writeIndexState(tx, { ...EMPTY, state: "rebuilding", clearing: DEFAULT_TENANT });
}

/** Status as of one snapshot. */
export async function readIndexStatus(reader: Reader): Promise<IndexStatus> {
  const state = await readIndexState(reader);
  return {
    state: state.state,
    indexed_through: positionOf(state.cursor),
    behind: Math.max(0, (await readTransitions(reader)) - state.entries),
    indexed: state.indexed,
    total: await readCount(reader, "checkpoints"),
  };
}

/** True when the index holds everything up to a commit position. */
export function hasReached(state: IndexState, position: string): boolean {
  return state.clearing === null && positionOf(state.cursor) >= position;
}

/** Waits until the index has reached a commit position; throws UNAVAILABLE with how far it has come after `timeoutMs`. */
export async function requireIndexed(store: Store, position: string, timeoutMs: number): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  for (;;) {
    const options = { label: "wait_for_index", deadlineMs: READ_DEADLINE_MS };
    const value = await store.read(options, (reader) => reader.get(indexKey()));
    const state = value === undefined ? EMPTY : decode<IndexState>(value);
    if (hasReached(state, position)) return;
    if (signal.aborted) {
      throw new FleetError("UNAVAILABLE", "the index has not reached this position yet", {
        details: { indexed_through: positionOf(state.cursor), wait_for: position },
        retryAfterMs: WAIT_POLL_MS,
      });
    }
    await store.changed(indexKey(), value, { signal, pollMs: WAIT_POLL_MS });
  }
}
