// What the cases of the contract work with.

import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Store } from "../../../shared/store/store.ts";

export interface Abilities {
  /** Opens a store that measures the age of transactions by `clock`. Without it the case waits for real. */
  readonly openWithClock?: (clock: Clock) => Promise<Store>;
}

/** What a case works with. */
export interface Bench {
  /** Shared by all cases of a file; each uses keys of its own, from `testSpace`. */
  readonly store: () => Store;
  /** Another one, to be closed by the case. May have the same content. */
  readonly open: () => Promise<Store>;
  readonly can: Abilities;
}
