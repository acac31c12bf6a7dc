/** The lock of a store that several processes share, and its two errors. */
import { StoreError } from "../store.ts";

/** Each blocks this thread while others hold the lock, and throws StoreError `unavailable` when that takes too long. */
export interface SharedLock {
  /** Takes the shared lock and releases it. */
  pass(): void;
  share<T>(work: () => T): T;
  takeAlone<T>(work: () => T): T;
  close(): void;
}

export const heldTooLong = (cause?: unknown): StoreError =>
  new StoreError("unavailable", "another process opens or changes the store for too long", { cause });

export const notLockable = (cause: unknown): StoreError =>
  new StoreError("unavailable", "the store cannot be locked", { cause });
