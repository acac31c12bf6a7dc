// The parameters of the contract's cases.

import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Store } from "../../../shared/store/store.ts";

export interface Abilities {
  /**
   * Opens a store that measures the age of transactions by `clock`. Without it the case waits in real time.
   */
  readonly openWithClock?: (clock: Clock) => Promise<Store>;
}

/** The parameters of a case. */
export interface Bench {
  /** The store of all cases of a file; each uses its own keys, from `testSpace`. */
  readonly store: () => Store;
  /** Opens another store, which the case closes. It may have the same content. */
  readonly open: () => Promise<Store>;
  readonly can: Abilities;
}
