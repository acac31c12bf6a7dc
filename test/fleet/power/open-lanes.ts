// Reads and commits lanes, through the store or through its engine alone.

import { openEnvironment, openForCopy, rowsOf } from "../../../shared/store/lmdb/environment.ts";
import { openStore } from "../../../shared/store/open.ts";
import { changesOf, commitsIn, laneRange } from "./committed-lanes.ts";

interface Lanes {
  /** The number of commits of a lane. Throws if its rows are not exactly those of its first commits. */
  count(lane: string): Promise<number>;
  commit(lane: string, n: number): Promise<void>;
  close(): Promise<void>;
}

const ROWS_MAX = 1_000;

export async function openStoreLanes(path: string): Promise<Lanes> {
  const store = await openStore(`lmdb:${path}`);
  const options = { label: "power", deadlineMs: 60_000, onUnknown: "safe" } as const;
  return {
    async count(lane) {
      const { value } = await store.transact(options, (tx) =>
        tx.getRange(laneRange(lane), { limit: ROWS_MAX }),
      );
      return commitsIn(lane, value.rows);
    },
    async commit(lane, n) {
      const { set, clear } = changesOf(lane, n);
      await store.transact(options, async (tx) => {
        for (const { key, value } of set) tx.set(key, value);
        for (const key of clear) tx.clear(key);
      });
    },
    close: () => store.close({ drainMs: 30_000 }),
  };
}

/** Opened as the store opens it, or without any sync. */
export async function openEngineLanes(
  path: string,
  { isSynced }: { readonly isSynced: boolean },
): Promise<Lanes> {
  const environment = await (isSynced ? openEnvironment({ path, mapSizeBytes: 2 ** 30 }) : openForCopy(path));
  return {
    count: async (lane) => commitsIn(lane, rowsOf(environment, laneRange(lane), { limit: ROWS_MAX })),
    async commit(lane, n) {
      const { set, clear } = changesOf(lane, n);
      // Nothing is returned: the result of `put` would make the engine transaction asynchronous.
      environment.transactionSync(() => {
        for (const { key, value } of set) environment.put(key, value);
        for (const key of clear) environment.remove(key);
      });
    },
    close: () => environment.close(),
  };
}
