/**
 * A store with faults on command: unavailable, hanging, or without the results of its commits. It wraps a real store, whose transactions
 * run. Only their results for the service change.
 */
import type { Store } from "../../../../shared/store/store.ts";
import { type Fault, faultyStore } from "../../../harness/stores/faulty-store.ts";
import { type Outage, outageStore } from "../../../harness/stores/outage-store.ts";

export type StoreMode =
  | { readonly kind: "normal" }
  /** Every call fails at once; nothing is committed. */
  | { readonly kind: "unavailable" }
  /** No call is answered before its deadline; nothing is committed. */
  | { readonly kind: "hanging" }
  /** This share of the commits has no result: some are applied, some are not, some are applied late. */
  | { readonly kind: "unknown"; readonly share: number };

export interface StoreFaults {
  readonly store: Store;
  set(mode: StoreMode): void;
  /** The number of commits whose result was withheld so far. */
  unknown(): number;
}

const UNKNOWN: readonly Fault[] = ["applied", "lost", "late"];
const OUTAGES: Readonly<Record<StoreMode["kind"], Outage>> = {
  normal: "none",
  unavailable: "refuses",
  hanging: "hangs",
  unknown: "none",
};
const SETTLE_EVERY_MS = 300;

export function storeFaults(real: Store, random: () => number): StoreFaults {
  let mode: StoreMode = { kind: "normal" };
  const faulty = faultyStore(real, () =>
    mode.kind === "unknown" && random() < mode.share
      ? UNKNOWN[Math.floor(random() * UNKNOWN.length)]!
      : "none",
  );
  const settling = setInterval(() => void faulty.settle(), SETTLE_EVERY_MS);
  settling.unref();

  const store = outageStore(faulty, () => OUTAGES[mode.kind]);
  return {
    store,
    set(next) {
      mode = next;
    },
    unknown: () => faulty.faults,
  };
}
