/**
 * Broken builds: the same services over a store that undoes one of their safeguards. They are the proof that the checker sees what it
 * is there to see; production code has no switch for any of this.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import { COMMAND_OPS } from "../../../../shared/protocol/subjects.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import { decode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import {
  type Bytes,
  type CommitResult,
  STAMP_BYTES,
  type Store,
  type TransactOptions,
  type Tx,
} from "../../../../shared/store/store.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";
import type { ViolationKind } from "../checker/evidence.ts";
import { altered, type Break, reading, subspaceOf } from "./altered.ts";
import { forgettingAttempts, keepingFences, returningBudgets, withoutLeases } from "./broken-recoveries.ts";

/** What each build leaves out, and the violation that it must be caught by. */
export const BROKEN = {
  fence_off: { breaking: withoutFences, caughtBy: "zombie_accepted" },
  early_answer: { breaking: answeringEarly, caughtBy: "lost" },
  audit_skipped: { breaking: skippingAudit, caughtBy: "chain_broken" },
  handoff_unchecked: { breaking: acceptingAlways, caughtBy: "handoff_taken_twice" },
  idempotency_off: { breaking: withoutIdempotency, caughtBy: "applied_twice" },
  leases_ignored: { breaking: withoutLeases, caughtBy: "false_recovery" },
  fence_kept: { breaking: keepingFences, caughtBy: "two_owners" },
  budget_free: { breaking: returningBudgets, caughtBy: "budget_overdrawn" },
  attempts_uncounted: { breaking: forgettingAttempts, caughtBy: "budget_overdrawn" },
  // What is damaged fits its hash, as where nobody compares any.
  unverified: { breaking: asItIs, caughtBy: "corrupt_served" },
} as const satisfies Record<string, { breaking: Break; caughtBy: ViolationKind }>;
export type BrokenName = keyof typeof BROKEN;

export const BROKEN_NAMES = Object.keys(BROKEN) as BrokenName[];

export function brokenStore(name: BrokenName, store: Store): Store {
  return wrappedStore(store, BROKEN[name].breaking(store));
}

function asItIs(store: Store): Store["transact"] {
  return (options, body) => store.transact(options, body);
}

const isCommand = ({ label }: TransactOptions): boolean => (COMMAND_OPS as readonly string[]).includes(label);

/** One write of an audit entry in ten is left out. */
function skippingAudit(store: Store): Store["transact"] {
  let writes = 0;
  return (options, body) =>
    store.transact(options, (tx) =>
      body(
        altered(tx, {
          set(key, value) {
            if (subspaceOf(key) === "audit" && ++writes % 10 === 0) return;
            tx.set(key, value);
          },
        }),
      ),
    );
}

/** No command finds the record of its first time. */
function withoutIdempotency(store: Store): Store["transact"] {
  return (options, body) =>
    store.transact(options, (tx) =>
      body(
        altered(
          tx,
          reading(tx, (key, value) => (subspaceOf(key) === "idem" ? undefined : value)),
        ),
      ),
    );
}

/** A command with an old fence is shown a task that still has that fence. */
function withoutFences(store: Store): Store["transact"] {
  return (options, body) =>
    store.transact(options, async (tx) => {
      try {
        return await body(tx);
      } catch (error) {
        if (!(error instanceof FleetError) || error.code !== "FENCED") throw error;
        const { given, fence, owner } = error.details as {
          given: number | null;
          fence: number;
          owner: string;
        };
        const shown = (head: Task): Task => ({
          ...head,
          fence: given ?? fence,
          owner: given === null ? null : owner,
        });
        return body(
          altered(tx, {
            ...reading(tx, (key, value) =>
              value !== undefined && subspaceOf(key) === "tasks"
                ? encodeChecked(shown(decode<Task>(value)))
                : value,
            ),
            set: (key, value) =>
              tx.set(
                key,
                subspaceOf(key) === "tasks" ? encodeChecked({ ...decode<Task>(value), fence, owner }) : value,
              ),
          }),
        );
      }
    });
}

/** Whoever accepts an offered task is shown a handoff that nobody has accepted yet, and that never runs out. */
function acceptingAlways(store: Store): Store["transact"] {
  const shown = (handoff: Handoff): Handoff =>
    handoff.state === "accepted"
      ? { ...handoff, state: "offered", deadline: new Date(8.64e15).toISOString() }
      : handoff;
  const see = (key: Bytes, value: Bytes | undefined): Bytes | undefined =>
    value !== undefined && subspaceOf(key) === "handoffs"
      ? encodeChecked(shown(decode<Handoff>(value)))
      : value;
  return (options, body) =>
    options.label === "acknowledge"
      ? store.transact(options, (tx) => body(altered(tx, reading(tx, see))))
      : store.transact(options, body);
}

const COMMIT_AFTER_MS = 150;

/** The answer leaves as soon as the command is worked out; the commit follows, or fails, or is cut off. */
function answeringEarly(store: Store): Store["transact"] {
  return <T>(options: TransactOptions, body: (tx: Tx) => Promise<T>): Promise<CommitResult<T>> => {
    if (!isCommand(options)) return store.transact(options, body);
    const answer = Promise.withResolvers<CommitResult<T>>();
    store
      .transact(options, async (tx) => {
        const value = await body(tx);
        answer.resolve({ value, stamp: Buffer.alloc(STAMP_BYTES, 1), attempts: tx.attempt });
        await sleep(COMMIT_AFTER_MS);
        return value;
      })
      .then(answer.resolve, answer.reject);
    return answer.promise;
  };
}
