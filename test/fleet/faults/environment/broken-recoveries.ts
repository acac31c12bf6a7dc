/** Broken builds of recovery, each without one safeguard. */
import type { Bus } from "../../../../shared/bus/bus.ts";
import type { TaskRecord } from "../../../../shared/lifecycle/task.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { decodeHead, encodeHead } from "../../../../shared/records/task/head.ts";
import type { Bytes, Store } from "../../../../shared/store/store.ts";
import { type AlteredTransact, altered, alteredReads, subspaceOf } from "./altered-transactions.ts";

/** Changes the head that the transactions with one label write. */
export const writingHeads =
  (label: string, change: (head: TaskRecord) => TaskRecord): AlteredTransact =>
  (store) =>
  (options, body) =>
    store.transact(options, (tx) =>
      options.label !== label
        ? body(tx)
        : body(
            altered(tx, {
              set: (key, value) =>
                tx.set(key, subspaceOf(key) === "tasks" ? encodeHead(change(decodeHead(value))) : value),
            }),
          ),
    );

/** Does not raise the fence after a failure. */
export const keepingFences = writingHeads("note_failure", (head) => ({ ...head, fence: head.fence - 1 }));

const UNCOUNTED = { failures: 0, attempts: 0, rung: "latest", rung_attempts: 0 } as const;

/** Restores the budget with any checkpoint. */
export const returningBudgets = writingHeads("create", (head) =>
  head.budget?.resumed !== true
    ? head
    : { ...head, budget: { ...head.budget, ...UNCOUNTED, avoid_id: null } },
);

/** Does not count attempts. */
export const forgettingAttempts = writingHeads("attempt_recovery", (head) =>
  head.budget === null ? head : { ...head, budget: { ...head.budget, ...UNCOUNTED, recent: [] } },
);

/** Hides the leases from the transaction that records a failure, and shows it a task without recent writes. */
export function withoutLeases(store: Store): Store["transact"] {
  const longAgo = new Date(0).toISOString();
  const shown = (key: Bytes, value: Bytes | undefined): Bytes | undefined => {
    if (value === undefined) return value;
    switch (subspaceOf(key)) {
      case "agent_lease":
        return undefined;
      case "tasks":
        return encodeHead({ ...decodeHead(value), updated_at: longAgo });
      default:
        return value;
    }
  };
  return (options, body) =>
    options.label === "note_failure"
      ? store.transact(options, (tx) => body(altered(tx, alteredReads(tx, shown))))
      : store.transact(options, body);
}

const DEAF_AFTER_MS = 3_000;

/** A watchdog's bus that delivers no heartbeats after a few seconds and reports no problem. */
export function deafBus(real: Bus): Bus {
  const deafAt = performance.now() + DEAF_AFTER_MS;
  const subscribe: Bus["subscribe"] = (subject, handler) =>
    real.subscribe(subject, (message) => {
      if (subject !== SUBJECTS.everyHeartbeat || performance.now() < deafAt) handler(message);
    });
  return new Proxy(real, {
    get(target, name) {
      if (name === "subscribe") return subscribe;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
