/**
 * The state of the index: its position in the feed and whether it is complete. It is one small record,
 * written in the same transaction as the entries, so that after a crash nothing is indexed twice and nothing
 * is skipped.
 */
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { IndexStatus } from "../../protocol/queries.ts";
import type { Bytes, Reader, Store, Tx } from "../../store/store.ts";
import { hasBlindTerms } from "../encryption/blind-terms.ts";
import { decode, encode } from "../kv/codec.ts";
import { readCheckpointCount } from "../kv/counters.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { positionOf } from "../outbox/feed.ts";
import { readTransitions } from "../outbox/outbox.ts";

export interface IndexState {
  readonly state: "ready" | "rebuilding";
  /** The tenant whose old entries a rebuild clears next; null: nothing is left to clear. */
  readonly clearing: string | null;
  /** The key of the last indexed feed entry; null: there is none. */
  readonly cursor: Bytes | null;
  /** The number of indexed feed entries, which is also the number of the next one. */
  readonly entries: number;
  /** The number of indexed checkpoints. */
  readonly indexed: number;
  /** The words in the keys are blinded. Absent: they are not. */
  readonly blinded?: boolean;
}

const EMPTY: IndexState = { state: "ready", clearing: null, cursor: null, entries: 0, indexed: 0 };

/** An index that begins now blinds its words if the store is encrypted. */
function emptyState(reader: Reader): IndexState {
  return hasBlindTerms(reader) ? { ...EMPTY, blinded: true } : EMPTY;
}

const WAIT_POLL_MS = 200;
const READ_DEADLINE_MS = 1_000;

export const indexKey = (): Bytes => systemKeys.meta("index");

export async function readIndexState(reader: Reader): Promise<IndexState> {
  const value = await reader.get(indexKey());
  return value === undefined ? emptyState(reader) : decode<IndexState>(value);
}

export function writeIndexState(tx: Tx, state: IndexState): void {
  tx.set(indexKey(), encode(state));
}

/**
 * Requests a rebuild of the index from the feed. Returns false, and has no effect, while a rebuild is in
 * progress.
 */
export async function requestRebuild(tx: Tx): Promise<boolean> {
  const { state } = await readIndexState(tx);
  if (state === "rebuilding") return false;
  writeIndexState(tx, { ...emptyState(tx), state: "rebuilding", clearing: DEFAULT_TENANT });
  return true;
}

/** The index has words in clear although the store is encrypted: it is rebuilt, as soon as no other rebuild is in progress. */
export async function requireBlinded(tx: Tx): Promise<"blinded" | "rebuilding" | "waiting"> {
  const { blinded = false, state } = await readIndexState(tx);
  if (blinded) return state === "ready" ? "blinded" : "rebuilding";
  return (await requestRebuild(tx)) ? "rebuilding" : "waiting";
}

/** The status of the index in one snapshot. */
export async function readIndexStatus(reader: Reader): Promise<IndexStatus> {
  const state = await readIndexState(reader);
  return {
    state: state.state,
    indexed_through: positionOf(state.cursor),
    behind: Math.max(0, (await readTransitions(reader)) - state.entries),
    indexed: state.indexed,
    total: await readCheckpointCount(reader),
  };
}

/** Whether everything up to a commit position is indexed. */
export function hasReached(state: IndexState, position: string): boolean {
  return state.clearing === null && positionOf(state.cursor) >= position;
}

/**
 * Waits until the index has reached a commit position. Throws UNAVAILABLE with the current position after
 * `timeoutMs`.
 */
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
