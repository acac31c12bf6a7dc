/** A consistent past state of an engine, pinned until it is released. */
import type { Bytes, KeyRange, KeyValue } from "../store.ts";

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
