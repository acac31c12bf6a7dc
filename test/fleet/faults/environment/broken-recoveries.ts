/** Broken builds of recovery: what keeps it from making things worse is taken out, one safeguard in each. */
import type { Bus } from "../../../../shared/bus/bus.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import { decode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import type { Bytes, Store } from "../../../../shared/store/store.ts";
import { altered, type Break, reading, subspaceOf } from "./altered.ts";

/** The transactions of one name write another head than they mean to. */
const writingHeads =
  (label: string, change: (head: Task) => Task): Break =>
  (store) =>
  (options, body) =>
    store.transact(options, (tx) =>
      options.label !== label
        ? body(tx)
        : body(
            altered(tx, {
              set: (key, value) =>
                tx.set(key, subspaceOf(key) === "tasks" ? encodeChecked(change(decode<Task>(value))) : value),
            }),
          ),
    );

/** Whoever failed keeps its fence. */
export const keepingFences = writingHeads("note_failure", (head) => ({ ...head, fence: head.fence - 1 }));

const UNCOUNTED = { failures: 0, attempts: 0, rung: "latest", rung_attempts: 0 } as const;

/** Any checkpoint gives the budget back. */
export const returningBudgets = writingHeads("create", (head) =>
  head.recovery?.state !== "resumed"
    ? head
    : { ...head, recovery: { ...head.recovery, ...UNCOUNTED, avoid_id: null } },
);

/** What is attempted is not counted. */
export const forgettingAttempts = writingHeads("attempt_recovery", (head) =>
  head.recovery === null ? head : { ...head, recovery: { ...head.recovery, ...UNCOUNTED, recent: [] } },
);

/** Whoever notes a failure sees no lease, and a task that nobody wrote to for long. */
export function withoutLeases(store: Store): Store["transact"] {
  const longAgo = new Date(0).toISOString();
  const see = (key: Bytes, value: Bytes | undefined): Bytes | undefined => {
    if (value === undefined) return value;
    switch (subspaceOf(key)) {
      case "agent_lease":
        return undefined;
      case "tasks":
        return encodeChecked({ ...decode<Task>(value), updated_at: longAgo });
      default:
        return value;
    }
  };
  return (options, body) =>
    options.label === "note_failure"
      ? store.transact(options, (tx) => body(altered(tx, reading(tx, see))))
      : store.transact(options, body);
}

const HEARS_MS = 3_000;

/** A watchdog's bus that brings no heartbeat any more after a while, although all is well with it. */
export function deafBus(real: Bus): Bus {
  const deafAt = performance.now() + HEARS_MS;
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
