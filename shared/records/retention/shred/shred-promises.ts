/**
 * What still keeps the checkpoints of a task whose shredding is requested or approved. All of them are opened, which may take longer than a transaction,
 * so they are read in snapshots of a few, before the command. Its transaction decides only if the trail of the task still ends where all of them were
 * read: otherwise they are read again.
 */
import { promiseOf, type RetainedCheckpoint } from "../../../lifecycle/retention/rules.ts";
import type { ShredPromise } from "../../../lifecycle/retention/shred.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import type { Checkpoint } from "../../../protocol/checkpoint.ts";
import { FleetError } from "../../../protocol/errors.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import type { Policies } from "../../../protocol/policy.ts";
import type { Bytes, Reader } from "../../../store/store.ts";
import { findMany, readTask } from "../../checkpoint/lookup.ts";
import { decodeOrder, type OrderEntry } from "../../checkpoint/order.ts";
import { after, parseSeq, tenantKeys } from "../../kv/keyspace.ts";
import type { Transactions } from "../../kv/transactions.ts";
import { rulesOf } from "../plan.ts";

/** Checkpoints opened at once. */
const SLICE = 16;
/** Tasks whose reading is remembered. */
const TASKS_MAX = 100;

/** The checkpoints of the task were not all read, or not at the end of its trail. */
export class PromisesUnread extends FleetError {
  constructor(task_id: string) {
    super("UNAVAILABLE", "the promises of the task are still being read; try again", {
      details: { task_id },
      retryAfterMs: LIMITS.overload_retry_ms,
    });
  }
}

interface Reading {
  /** The end of the trail in all snapshots. */
  readonly auditSeq: number;
  /** No checkpoint up to this key is promised. */
  through: Bytes | null;
  isDone: boolean;
  /** The first promise, or the damage at which the reading ended. Neither is remembered longer than for one answer. */
  found: ShredPromise | FleetError;
}

interface TaskPlace {
  readonly tenant: string;
  readonly task: string;
}

interface PromiseParts {
  readonly transactions: Transactions;
  readonly policies: Policies;
  readonly now: () => number;
}

export class ShredPromises {
  readonly #parts: PromiseParts;
  /** A command that is sent again continues what an earlier one has begun. */
  readonly #readings = new Map<string, Reading>();

  constructor(parts: PromiseParts) {
    this.#parts = parts;
  }

  /**
   * The first promise that still keeps a checkpoint of the task, whose head is read in the transaction of the command. Throws {@link PromisesUnread}, and
   * CORRUPT for a damaged checkpoint.
   */
  of({ tenant, task_id: task, audit_seq }: TaskRecord): ShredPromise {
    const key = `${tenant}/${task}`;
    const reading = this.#readings.get(key);
    if (reading?.isDone !== true || reading.auditSeq !== audit_seq) throw new PromisesUnread(task);
    const { found } = reading;
    // A promise ends with time, and damage is repaired.
    if (found !== null) this.#readings.delete(key);
    if (found instanceof FleetError) throw found;
    return found;
  }

  /** Reads the checkpoints of a task. Throws {@link PromisesUnread} when the time is over; the next call continues. */
  async read({ tenant, task }: TaskPlace, forMs: number): Promise<void> {
    const endsAt = performance.now() + forMs;
    for (;;) {
      const reading = await this.#readPage({ tenant, task });
      if (reading === null || reading.isDone) return;
      if (performance.now() > endsAt) throw new PromisesUnread(task);
    }
  }

  /** null: there is no such task. */
  async #readPage({ tenant, task }: TaskPlace): Promise<Reading | null> {
    const { transactions, policies, now } = this.#parts;
    const key = `${tenant}/${task}`;
    const context = { policies, nowMs: now() };
    const known = this.#readings.get(key);
    const reading = await transactions.read("shred_promises", async (reader) => {
      const head = await readTask(reader, tenant, task);
      return head === null ? null : nextPage(reader, head, known, context);
    });
    this.#readings.delete(key);
    if (reading === null) return null;
    const [oldest] = this.#readings.keys();
    if (this.#readings.size >= TASKS_MAX && oldest !== undefined) this.#readings.delete(oldest);
    this.#readings.set(key, reading);
    return reading;
  }
}

async function nextPage(
  reader: Reader,
  head: TaskRecord,
  known: Reading | undefined,
  context: PromiseContext,
): Promise<Reading> {
  const { tenant, task_id, audit_seq: auditSeq } = head;
  const through = known?.auditSeq === auditSeq ? known.through : null;
  const { begin, end } = tenantKeys(tenant).orderRange(task_id);
  const range = { begin: through === null ? begin : after(through), end };
  const { rows, more } = await reader.getRange(range, { limit: SLICE });
  const found = await firstFound(reader, head, rows, context);
  const last = rows.at(-1);
  const isDone = found !== null || !more || last === undefined;
  return { auditSeq, through: found === null && last !== undefined ? last.key : through, isDone, found };
}

async function firstFound(
  reader: Reader,
  head: TaskRecord,
  rows: Parameters<typeof openPlaces>[2],
  context: PromiseContext,
): Promise<Reading["found"]> {
  try {
    for (const place of await openPlaces(reader, head, rows)) {
      const promise = promiseOfPlace(head, place, context);
      if (promise !== null) return promise;
    }
    return null;
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return error;
    throw error;
  }
}

interface PromiseContext {
  readonly policies: Policies;
  readonly nowMs: number;
}

export interface OpenPlace {
  readonly seq: number;
  readonly entry: OrderEntry;
  readonly checkpoint: Checkpoint;
}

/**
 * Throws CORRUPT for a damaged entry of the order, and for a checkpoint that cannot be read: what it was promised is not known, and the mirror could
 * bring content back for which no removal is in the trail. An operator repairs the task first, or removes the checkpoint.
 */
export async function openPlaces(
  reader: Reader,
  { tenant, task_id }: TaskRecord,
  rows: readonly { readonly key: Uint8Array; readonly value: Uint8Array }[],
): Promise<OpenPlace[]> {
  const places = rows.map(({ key, value }) => {
    const seq = parseSeq(key);
    const entry = decodeOrder(value);
    if (entry === null) throw damaged(task_id, { seq });
    return { seq, entry };
  });
  const found = await findMany(reader, tenantKeys(tenant), task_id, places);
  return places.map(({ seq, entry }, i) => {
    const one = found[i];
    if (one?.sound !== true) throw damaged(task_id, { seq, checkpoint_id: entry.id });
    return { seq, entry, checkpoint: one.checkpoint };
  });
}

function damaged(
  task_id: string,
  place: { readonly seq: number; readonly checkpoint_id?: string },
): FleetError {
  return new FleetError(
    "CORRUPT",
    "a checkpoint of the task is damaged, so what it was promised is not known",
    {
      details: { task_id, ...place },
    },
  );
}

export function promiseOfPlace(
  head: TaskRecord,
  { seq, entry, checkpoint: sound }: OpenPlace,
  { policies, nowMs }: PromiseContext,
): ShredPromise {
  const checkpoint: RetainedCheckpoint = {
    ...{ id: entry.id, seq, isBroken: false },
    policy: sound.compliance.retention_policy,
    floor: sound.compliance.retention_floor,
    committedAt: sound.metadata.committed_at,
    retainUntil: sound.compliance.retain_until,
  };
  const { keep: reason, untilMs, floor } = promiseOf(checkpoint, rulesOf(head, { policies }));
  if (untilMs <= nowMs) return null;
  return {
    checkpoint_id: entry.id,
    reason,
    ...(floor !== undefined && { floor }),
    ...(Number.isFinite(untilMs) && { until: new Date(untilMs).toISOString() }),
  };
}
