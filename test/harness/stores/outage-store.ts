// A real store with outages. During an outage it refuses, or does not answer until the caller's deadline, as an engine does
// whose disk is full or whose cluster is down.

import { setTimeout as sleep } from "node:timers/promises";
import { type ReadOptions, type Store, StoreError } from "../../../shared/store/store.ts";

/** `breaks`: the store is available and has a defect. */
export type Outage = "none" | "refuses" | "hangs" | "breaks";

/** `outage` is called before every operation. */
export function outageStore(store: Store, outage: () => Outage): Store {
  async function run<T>(options: ReadOptions, work: () => Promise<T>): Promise<T> {
    switch (outage()) {
      case "none":
        return work();
      case "refuses":
        throw new StoreError("unavailable", "the store is unavailable on purpose");
      case "breaks":
        throw new TypeError("a defect on purpose");
      case "hangs":
        await sleep(options.deadlineMs);
        throw new StoreError("deadline", "the store did not answer on purpose");
    }
  }
  return {
    name: store.name,
    transact: (options, body) => run(options, () => store.transact(options, body)),
    read: (options, body) => run(options, () => store.read(options, body)),
    changed: (key, lastSeen, options) => store.changed(key, lastSeen, options),
    async health(options) {
      if (outage() === "none" || outage() === "breaks") return store.health(options);
      if (outage() === "hangs") await sleep(options.timeoutMs);
      return { ok: false, detail: "unavailable on purpose" };
    },
    close: (options) => store.close(options),
  };
}
