/**
 * Removes the content of tasks whose shredding was approved: in transactions of a bounded size, each of which checks the lease, the holds
 * and the promises again. A crash at any point leaves a task approved, and the next step continues with what is left.
 */
import { decisionOfService } from "../../../lifecycle/decision.ts";
import { isHeld } from "../../../lifecycle/retention/hold-rules.ts";
import { remove } from "../../../lifecycle/retention/rules.ts";
import { endShred } from "../../../lifecycle/retention/shred.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import { retentionFloorOf } from "../../../protocol/policy.ts";
import { type Bytes, StoreError, type StoreErrorKind, type Tx } from "../../../store/store.ts";
import { encodeChecked } from "../../kv/codec.ts";
import { after, systemKeys, tenantKeys } from "../../kv/keyspace.ts";
import { LeaseLost } from "../../leader/lease.ts";
import { readNewestHead } from "../../task/command-transaction.ts";
import { writeTransitions } from "../../task/transitions.ts";
import { clearEntry } from "../removal.ts";
import type { RetentionSweep } from "../sweep.ts";
import { clearContent } from "./content.ts";
import { type RemovedFacts, readRemovedFacts, writeCertificate } from "./shred-certificate.ts";
import { parseShred } from "./shred-keys.ts";
import { clearLeftovers, type LeftoverStep } from "./shred-leftovers.ts";
import { type OpenPlace, openPlaces, promiseOfPlace } from "./shred-promises.ts";
import { repairTombstones } from "./shred-tombstones.ts";

/** Tasks of one step. */
const TASKS_MAX = 16;
const READ_DEADLINE_MS = 3_000;
/** Failures of the store that no other task escapes. */
const AWAY: ReadonlySet<StoreErrorKind> = new Set(["unavailable", "closed", "aborted", "fatal"]);
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface ShredPlace {
  readonly tenant: string;
  readonly task: string;
}

export interface ShredSweep extends RetentionSweep {
  /** Removes the messages of the task from the streams of the bus. May be repeated, and throws if it has to be. */
  readonly eraseMessages: (place: ShredPlace) => Promise<void>;
}

export interface KeptShred extends ShredPlace {
  readonly reason: "held" | "promised";
}

export interface ShredStep {
  readonly removed: number;
  readonly ended: readonly ShredPlace[];
  /** Tasks with a hold or a promise that began after the approval. */
  readonly kept: readonly KeptShred[];
  /** Tasks with a damaged record. */
  readonly failed: readonly (ShredPlace & { readonly error: unknown })[];
  /** The key after which the next step continues; null: every approved task was looked at. */
  readonly next: Bytes | null;
}

type Outcome = {
  readonly removed: number;
  readonly state: "more" | "removed" | "ended" | "gone" | KeptShred["reason"];
};

/** Removes a part of each of the next approved tasks after `from`. */
export async function stepShredding(sweep: ShredSweep, from: Bytes | null = null): Promise<ShredStep> {
  const { store } = sweep;
  const { begin, end } = systemKeys.shredsIn("approved");
  const range = { begin: from === null ? begin : after(from), end };
  const reading = { label: "plan_shredding", deadlineMs: READ_DEADLINE_MS };
  const { rows, more } = await store.read(reading, (reader) => reader.getRange(range, { limit: TASKS_MAX }));
  let removed = 0;
  const found = {
    ended: [] as ShredPlace[],
    kept: [] as KeptShred[],
    failed: [] as ShredStep["failed"][number][],
  };
  const tasks = rows.map(({ key }) => parseShred(key));
  const shared: LeftoverStep = { tasks, indexed: new Set() };
  for (const place of tasks) {
    try {
      const outcome = await shredTask(sweep, place, shared);
      removed += outcome.removed;
      const { state } = outcome;
      if (state === "ended") found.ended.push(place);
      if (state === "held" || state === "promised") found.kept.push({ ...place, reason: state });
    } catch (error) {
      // The step is repeated when the store is available. One task with a damaged record, or for which the store has no time, must not stop the others:
      // the next round tries it again.
      if (endsStep(error)) throw error;
      found.failed.push({ ...place, error });
    }
  }
  return { removed, ...found, next: more ? (rows.at(-1)?.key ?? null) : null };
}

/** Whether no other task would succeed either. */
export function endsStep(error: unknown): boolean {
  return error instanceof LeaseLost || (error instanceof StoreError && AWAY.has(error.kind));
}

async function shredTask(sweep: ShredSweep, place: ShredPlace, step: LeftoverStep): Promise<Outcome> {
  const { store, guard } = sweep;
  for (let removed = 0; ; ) {
    const options = { ...WRITE, label: "shred_task" };
    const { value } = await store.transact(options, (tx) => shredPart(tx, sweep, place));
    removed += value.removed;
    if (value.state === "more") continue;
    if (value.state !== "removed") return { removed, state: value.state };
    if (!(await clearLeftovers({ store, guard, step, ...place }))) return { removed, state: "held" };
    // Before the end, so a step after a crash repeats it.
    await sweep.eraseMessages(place);
    const reading = { label: "certify_shredding", deadlineMs: READ_DEADLINE_MS };
    const repair = (positions: readonly number[]) => repairTombstones({ store, guard, ...place }, positions);
    const facts = await readRemovedFacts((body) => store.read(reading, body), place, repair);
    for (;;) {
      const end = await store.transact(options, (tx) => endPart(tx, sweep, place, facts));
      if (end.value !== "more") return { removed, state: end.value };
    }
  }
}

/** The head of an approved task that nothing keeps; otherwise why not. */
async function approvedHead(
  tx: Tx,
  sweep: RetentionSweep,
  { tenant, task }: ShredPlace,
): Promise<TaskRecord | "gone" | "held"> {
  await sweep.guard(tx);
  const head = await readNewestHead(tx, tenantKeys(tenant), task);
  if (head === null || head.shred?.state !== "approved") return "gone";
  return isHeld(head) ? "held" : head;
}

async function shredPart(tx: Tx, sweep: RetentionSweep, place: ShredPlace): Promise<Outcome> {
  const head = await approvedHead(tx, sweep, place);
  if (typeof head === "string") return { removed: 0, state: head };
  const keys = tenantKeys(place.tenant);
  const nowMs = sweep.now();
  const limit = LIMITS.removal_count_max;
  const { rows } = await tx.snapshot.getRange(keys.orderRange(place.task), { limit });
  if (rows.length === 0) return { removed: 0, state: "removed" };
  const places = await openPlaces(tx.snapshot, head, rows);
  const isPromised = (one: OpenPlace) => promiseOfPlace(head, one, { ...sweep, nowMs }) !== null;
  if (places.some(isPromised)) return { removed: 0, state: "promised" };
  const decision = decisionOfService(head, sweep.service, nowMs);
  for (const { seq, entry, checkpoint } of places) {
    const { id, version, hash } = entry;
    const { retention_policy: policy, retain_until: retainUntil } = checkpoint.compliance;
    const change = { id, version, oldHash: hash, newHash: null };
    remove(decision, { change, policy, judgement: { remove: "shredded" } });
    const { parent_ids: parents } = checkpoint.metadata;
    await clearEntry(tx, keys, decision, { entry, seq, parents, policy, retainUntil, reason: "shredded" });
  }
  write(tx, { sweep, nowMs, head }, decision.transitions);
  return { removed: places.length, state: "more" };
}

/**
 * All checkpoints are removed. In an encrypted store the keys of the task are destroyed with this transaction, which writes its record again. Messages that
 * are published late are erased after it (`late-messages.ts`).
 */
async function endPart(
  tx: Tx,
  sweep: RetentionSweep,
  place: ShredPlace,
  facts: RemovedFacts,
): Promise<"more" | "ended" | "gone" | "held"> {
  const head = await approvedHead(tx, sweep, place);
  if (typeof head === "string") return head;
  const destroyed = await clearContent(tx, head);
  if (destroyed === null) return "more";
  const nowMs = sweep.now();
  const decision = endShred(decisionOfService(head, sweep.service, nowMs));
  const ended = write(tx, { sweep, nowMs, head }, decision.transitions);
  writeCertificate(tx, ended, {
    ...{ ...facts, floor: retentionFloorOf(sweep.policies, place.tenant) },
    ...(destroyed.length > 0 && { keys: [...destroyed] }),
  });
  tx.set(systemKeys.lateMessagesOf(place.tenant, place.task), encodeChecked(nowMs));
  return "ended";
}

interface Written {
  readonly sweep: RetentionSweep;
  readonly nowMs: number;
  readonly head: TaskRecord;
}

function write(
  tx: Tx,
  { sweep, nowMs, head }: Written,
  transitions: Parameters<typeof writeTransitions>[4],
): TaskRecord {
  const { incarnation } = sweep;
  const { tenant, task_id: task } = head;
  const actor = { id: sweep.service, type: "service" } as const;
  const author = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent: undefined };
  return writeTransitions(tx, tenantKeys(tenant), author, head, transitions);
}
