/** Broken builds of retention, each without one safeguard. */
import { type AlteredTransact, altered, subspaceOf } from "./altered-transactions.ts";
import { writingHeads } from "./broken-recoveries.ts";

/** Forgets the hold that a command places. */
export const forgettingHolds = writingHeads("hold", (head) =>
  head.retention === undefined || head.retention === null
    ? head
    : { ...head, retention: { ...head.retention, holds: [] } },
);

/** Removes checkpoints without a tombstone. */
export const withoutTombstones: AlteredTransact = (store) => (options, body) =>
  store.transact(options, (tx) =>
    body(
      altered(tx, {
        set(key, value) {
          if (subspaceOf(key) !== "tombstones") tx.set(key, value);
        },
      }),
    ),
  );
