// A store whose commit results get lost. It wraps a real store and runs real transactions. Only the result is withheld,
// because a caller sees nothing else of a broken connection or of a process that ends.

import {
  type CommitResult,
  type Store,
  StoreError,
  type TransactOptions,
  type Tx,
} from "../../../shared/store/store.ts";
import { wrappedStore } from "./wrapped-store.ts";

export type Fault =
  | "none"
  | "applied" // committed, with an unknown result for the caller
  | "lost" // not committed, with an unknown result for the caller
  | "late"; // delayed: the commit is tried after the caller's next attempt has succeeded

export interface FaultyStore extends Store {
  /** The number of attempts so far whose result was withheld. */
  readonly faults: number;
  /** Releases the late commits and waits for them; returns how many of them took effect. */
  settle(): Promise<number>;
}

class LostCommit extends Error {}

/** `next` is called once per attempt. */
export function faultyStore(store: Store, next: () => Fault): FaultyStore {
  const late: (() => Promise<boolean>)[] = [];
  let faults = 0;

  async function attemptLate<T>(options: TransactOptions, body: (tx: Tx) => Promise<T>): Promise<void> {
    const bodyDone = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const outcome = store
      .transact({ ...options, maxAttempts: 1 }, async (tx) => {
        const value = await body(tx).finally(bodyDone.resolve);
        await gate.promise;
        return value;
      })
      .then(
        () => true,
        () => false,
      );
    late.push(() => {
      gate.resolve();
      return outcome;
    });
    await bodyDone.promise;
  }

  async function attemptFaulty<T>(fault: Fault, options: TransactOptions, body: (tx: Tx) => Promise<T>) {
    faults += 1;
    if (fault === "late") return await attemptLate(options, body);
    await store
      .transact(options, async (tx) => {
        await body(tx);
        if (fault === "lost") throw new LostCommit();
      })
      .catch((error) => {
        if (!(error instanceof LostCommit)) throw error;
      });
  }

  async function transact<T>(
    options: TransactOptions,
    body: (tx: Tx) => Promise<T>,
  ): Promise<CommitResult<T>> {
    for (let attempts = 0; ; attempts++) {
      const fault = next();
      if (fault === "none") {
        const committed = await store.transact(options, body);
        return { ...committed, attempts: committed.attempts + attempts };
      }
      await attemptFaulty(fault, options, body);
      if (options.onUnknown === "unsafe") {
        throw new StoreError("commit_unknown", "the result was lost on purpose", {
          committed: "maybe_settled",
        });
      }
    }
  }

  return {
    ...wrappedStore(store, transact),
    get faults() {
      return faults;
    },
    async settle() {
      const outcomes = await Promise.all(late.splice(0).map((release) => release()));
      return outcomes.filter((applied) => applied).length;
    },
  };
}
