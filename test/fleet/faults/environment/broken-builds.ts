/**
 * Broken builds: the services over a store that removes one of their safeguards. They prove that the checker detects each violation.
 * Production code has no switch for them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { TaskRecord } from "../../../../shared/lifecycle/task.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import { COMMAND_OPS } from "../../../../shared/protocol/operations.ts";
import { decode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { decodeHead, encodeHead } from "../../../../shared/records/task/head.ts";
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
import { type AlteredTransact, altered, alteredReads, subspaceOf } from "./altered-transactions.ts";
import { forgettingAttempts, keepingFences, returningBudgets, withoutLeases } from "./broken-recoveries.ts";
import { forgettingHolds, withoutTombstones } from "./broken-retention.ts";

/** Each broken build, with the violation that must reveal it. */
export const BROKEN = {
  fence_off: { transact: withoutFences, revealedBy: "zombie_accepted" },
  early_answer: { transact: answeringEarly, revealedBy: "lost" },
  audit_skipped: { transact: skippingAudit, revealedBy: "chain_broken" },
  handoff_unchecked: { transact: acceptingAlways, revealedBy: "handoff_taken_twice" },
  idempotency_off: { transact: withoutIdempotency, revealedBy: "applied_twice" },
  leases_ignored: { transact: withoutLeases, revealedBy: "false_recovery" },
  fence_kept: { transact: keepingFences, revealedBy: "two_owners" },
  budget_free: { transact: returningBudgets, revealedBy: "budget_overdrawn" },
  attempts_uncounted: { transact: forgettingAttempts, revealedBy: "budget_overdrawn" },
  // Damaged checkpoints match their hashes, which is the effect of a build that compares no hashes.
  unverified: { transact: unchanged, revealedBy: "corrupt_served" },
  hold_forgotten: { transact: forgettingHolds, revealedBy: "removal_unjustified" },
  tombstone_skipped: { transact: withoutTombstones, revealedBy: "removal_incomplete" },
} as const satisfies Record<string, { transact: AlteredTransact; revealedBy: ViolationKind }>;
export type BrokenName = keyof typeof BROKEN;

/** The broken builds that only a fleet with removals reveals. */
export const NEEDS_RETENTION: ReadonlySet<BrokenName> = new Set(["hold_forgotten", "tombstone_skipped"]);

export const BROKEN_NAMES = Object.keys(BROKEN) as BrokenName[];

export function brokenStore(name: BrokenName, store: Store): Store {
  return wrappedStore(store, BROKEN[name].transact(store));
}

function unchanged(store: Store): Store["transact"] {
  return (options, body) => store.transact(options, body);
}

const isCommand = ({ label }: TransactOptions): boolean => (COMMAND_OPS as readonly string[]).includes(label);

/** Skips one in ten audit entries. */
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

/** Hides the idempotency records from commands. */
function withoutIdempotency(store: Store): Store["transact"] {
  return (options, body) =>
    store.transact(options, (tx) =>
      body(
        altered(
          tx,
          alteredReads(tx, (key, value) => (subspaceOf(key) === "idem" ? undefined : value)),
        ),
      ),
    );
}

/** Shows a command with a superseded fence a task that still has that fence. */
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
        const shown = (head: TaskRecord): TaskRecord => ({
          ...head,
          fence: given ?? fence,
          owner: given === null ? null : owner,
        });
        return body(
          altered(tx, {
            ...alteredReads(tx, (key, value) =>
              value !== undefined && subspaceOf(key) === "tasks"
                ? encodeHead(shown(decodeHead(value)))
                : value,
            ),
            set: (key, value) =>
              tx.set(
                key,
                subspaceOf(key) === "tasks" ? encodeHead({ ...decodeHead(value), fence, owner }) : value,
              ),
          }),
        );
      }
    });
}

/** Shows every accepting agent a handoff that is not accepted and that has no deadline. */
function acceptingAlways(store: Store): Store["transact"] {
  const shown = (handoff: Handoff): Handoff =>
    handoff.state === "accepted"
      ? { ...handoff, state: "offered", deadline: new Date(8.64e15).toISOString() }
      : handoff;
  const shownHandoff = (key: Bytes, value: Bytes | undefined): Bytes | undefined =>
    value !== undefined && subspaceOf(key) === "handoffs"
      ? encodeChecked(shown(decode<Handoff>(value)))
      : value;
  return (options, body) =>
    options.label === "acknowledge"
      ? store.transact(options, (tx) => body(altered(tx, alteredReads(tx, shownHandoff))))
      : store.transact(options, body);
}

const COMMIT_AFTER_MS = 150;

/** Answers before the commit, which may then fail or be lost. */
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
