/** The functions that an embedded engine (LMDB, memory) provides to the optimistic store. */
import type { Bytes, KeyRange, KeyValue } from "../store.ts";
import type { BatchResult, Slab } from "./commit.ts";

export interface Engine {
  readonly name: "lmdb" | "memory";
  /**
   * The least time in milliseconds between the beginnings of two commits: the cost of a commit apart from its
   * requests.
   */
  readonly paceMs: number;
  /** The newest committed state, for reading. Throws a StoreError when the engine has failed for good. */
  snapshot(): Snapshot;
  /**
   * Commits all requests of the slabs durably, or rejects with a StoreError that holds for all of them. One
   * call at a time.
   */
  commit(slabs: Slab[]): Promise<BatchResult>;
  /**
   * Calls `noticed` after commits of other threads and processes, where there can be any, until the engine is
   * closed.
   */
  watch?(noticed: () => void): void;
  /** Called once, when no work is left or the rest does not end. */
  close(): Promise<void>;
}

/** A consistent past state of an engine, pinned until it is released. */
export interface Snapshot {
  /** The commit counter at this state. */
  readonly sequence: bigint;
  /** Milliseconds on the store's monotonic clock. */
  readonly openedAt: number;
  /** Returned arrays are copies, here and in `rows`. */
  get(key: Bytes): Bytes | undefined;
  rows(range: KeyRange, limit: number, reverse: boolean): KeyValue[];
  /** Called once. The snapshot is not used afterwards. */
  release(): void;
}
