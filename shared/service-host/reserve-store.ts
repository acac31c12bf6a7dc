/**
 * The store as coordinators and watchdogs see it: without writes while its disk is full. Agents cannot accept an offer then, and one whose
 * checkpoint was refused may end. Offers that expire and recoveries that fail would spend the budgets of tasks, which no operator
 * could prevent. So handoffs and recoveries stand still, as during an outage of the store, and continue when there is room.
 */
import type { DiskSpace } from "../runtime/disk-space.ts";
import { type Store, StoreError } from "../store/store.ts";

export function reserveStore(store: Store, disk: DiskSpace): Store {
  return {
    name: store.name,
    async transact(options, body) {
      const full = disk.fullDisk("store");
      if (full === undefined) return store.transact(options, body);
      throw new StoreError("unavailable", "the disk is full", {
        details: { code: "ENOSPC", free_bytes: full.freeBytes },
      });
    },
    read: (options, body) => store.read(options, body),
    changed: (key, lastSeen, options) => store.changed(key, lastSeen, options),
    health: (options) => store.health(options),
    close: (options) => store.close(options),
  };
}
