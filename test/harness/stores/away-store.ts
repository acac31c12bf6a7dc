// A store that can go away and come back. It wraps a real one; while it is away it refuses, or does not answer until the caller's
// deadline, as an engine does whose disk is full or whose cluster is gone.

import { setTimeout as sleep } from "node:timers/promises";
import { type ReadOptions, type Store, StoreError } from "../../../shared/store/store.ts";

/** `breaks`: it is there, but has a defect. */
export type Away = "no" | "refuses" | "hangs" | "breaks";

/** `away` is asked at every call. */
export function awayStore(store: Store, away: () => Away): Store {
  async function unless<T>(options: ReadOptions, work: () => Promise<T>): Promise<T> {
    switch (away()) {
      case "no":
        return work();
      case "refuses":
        throw new StoreError("unavailable", "the store is away on purpose");
      case "breaks":
        throw new TypeError("a defect on purpose");
      case "hangs":
        await sleep(options.deadlineMs);
        throw new StoreError("deadline", "the store did not answer on purpose");
    }
  }
  return {
    name: store.name,
    transact: (options, body) => unless(options, () => store.transact(options, body)),
    read: (options, body) => unless(options, () => store.read(options, body)),
    changed: (key, lastSeen, options) => store.changed(key, lastSeen, options),
    async health(options) {
      if (away() === "no" || away() === "breaks") return store.health(options);
      if (away() === "hangs") await sleep(options.timeoutMs);
      return { ok: false, detail: "away on purpose" };
    },
    close: (options) => store.close(options),
  };
}
