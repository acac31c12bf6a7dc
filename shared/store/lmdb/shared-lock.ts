/** Each blocks this thread while others hold the lock, and throws StoreError `unavailable` when that takes too long. */
export interface SharedLock {
  /** Takes the shared lock and releases it. */
  pass(): void;
  share<T>(work: () => T): T;
  takeAlone<T>(work: () => T): T;
  close(): void;
}
