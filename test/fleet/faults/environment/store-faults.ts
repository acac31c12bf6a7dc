/**
 * A store that fails on command: away, hanging, or losing the results of its commits. It stands between a service and the real store,
 * whose transactions really run; only what the service learns of them is changed.
 */
import type { Store } from "../../../../shared/store/store.ts";
import { type Fault, faultyStore } from "../../../harness/stores/faulty-store.ts";
import { type Outage, outageStore } from "../../../harness/stores/outage-store.ts";

export type StoreMode =
  | { readonly kind: "sound" }
  /** Every call fails at once; nothing is committed. */
  | { readonly kind: "away" }
  /** No call is answered before its deadline; nothing is committed. */
  | { readonly kind: "hanging" }
  /** This share of the commits ends without a result: some were applied, some not, some come late. */
  | { readonly kind: "unknown"; readonly share: number };

export interface StoreFaults {
  readonly store: Store;
  set(mode: StoreMode): void;
  /** Commits whose result was taken away so far. */
  unknown(): number;
}

const UNKNOWN: readonly Fault[] = ["applied", "lost", "late"];
const AWAY: Readonly<Record<StoreMode["kind"], Outage>> = {
  sound: "none",
  away: "refuses",
  hanging: "hangs",
  unknown: "none",
};
const SETTLE_EVERY_MS = 300;

export function storeFaults(real: Store, random: () => number): StoreFaults {
  let mode: StoreMode = { kind: "sound" };
  const faulty = faultyStore(real, () =>
    mode.kind === "unknown" && random() < mode.share
      ? UNKNOWN[Math.floor(random() * UNKNOWN.length)]!
      : "none",
  );
  const settling = setInterval(() => void faulty.settle(), SETTLE_EVERY_MS);
  settling.unref();

  const store = outageStore(faulty, () => AWAY[mode.kind]);
  return {
    store,
    set(next) {
      mode = next;
    },
    unknown: () => faulty.faults,
  };
}
