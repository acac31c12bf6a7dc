/**
 * A store that fails on command: away, hanging, or losing the results of its commits. It stands between a service and the real store,
 * whose transactions really run; only what the service learns of them is changed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Store, StoreError } from "../../../shared/store/store.ts";
import { type Fault, faultyStore } from "../../harness/faulty-store.ts";

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

  /** Throws when the mode says so. */
  async function pass({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    if (mode.kind === "hanging") {
      await sleep(deadlineMs);
      throw new StoreError("deadline", "the store hangs on purpose");
    }
    if (mode.kind === "away") throw new StoreError("unavailable", "the store is away on purpose");
  }

  const store: Store = {
    name: real.name,
    async transact(options, body) {
      await pass(options);
      return faulty.transact(options, body);
    },
    async read(options, body) {
      await pass(options);
      return real.read(options, body);
    },
    changed: (key, lastSeen, options) => real.changed(key, lastSeen, options),
    async health(options) {
      try {
        await pass({ deadlineMs: options.timeoutMs });
      } catch {
        return { ok: false, detail: "failing on purpose" };
      }
      return real.health(options);
    },
    close: (options) => real.close(options),
  };
  return {
    store,
    set(next) {
      mode = next;
    },
    unknown: () => faulty.faults,
  };
}
