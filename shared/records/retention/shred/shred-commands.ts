/** The commands of shredding, each with the promises that still keep a checkpoint of the task. */
import { promiseOf, type RetainedCheckpoint } from "../../../lifecycle/retention/rules.ts";
import type { ShredPromise } from "../../../lifecycle/retention/shred.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import type { Checkpoint } from "../../../protocol/checkpoint.ts";
import { FleetError } from "../../../protocol/errors.ts";
import type { Policies } from "../../../protocol/policy.ts";
import type {
  ShredApproveCommand,
  ShredCancelCommand,
  ShredRequestCommand,
} from "../../../protocol/shred.ts";
import type { Reader, Tx } from "../../../store/store.ts";
import { findMany } from "../../checkpoint/lookup.ts";
import { decodeOrder, type OrderEntry } from "../../checkpoint/order.ts";
import { parseSeq, tenantKeys } from "../../kv/keyspace.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  complete,
  decided,
  type Replay,
} from "../../task/command-transaction.ts";
import type { RememberedShred } from "../../task/idempotency.ts";
import { rulesOf } from "../plan.ts";

/** Checkpoints opened at once. */
const SLICE = 16;

type Answer = Promise<RememberedShred | Replay>;

export async function requestShred(tx: Tx, context: CommandContext, command: ShredRequestCommand): Answer {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const { reason, case: reference = null } = command;
  const promise = await promiseOfTask(tx, begun.head, context);
  return finish(tx, context, begun, { type: "shred_request", reason, case: reference, promise });
}

export async function approveShred(tx: Tx, context: CommandContext, command: ShredApproveCommand): Answer {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const promise = await promiseOfTask(tx, begun.head, context);
  return finish(tx, context, begun, { type: "shred_approve", requestSeq: command.request_seq, promise });
}

export async function cancelShred(tx: Tx, context: CommandContext, command: ShredCancelCommand): Answer {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  return finish(tx, context, begun, { type: "shred_cancel", requestSeq: command.request_seq });
}

function finish(tx: Tx, context: CommandContext, begun: Begun, input: Parameters<typeof decided>[2]): Answer {
  const decision = decided(context, { task: begun.head, handoff: null }, input);
  const { task_id, shred = null } = decision.task;
  const answer = { task_id, shred, committed_at: decision.at };
  return complete(tx, context, begun, { transitions: decision.transitions, answer });
}

interface PromiseContext {
  readonly policies: Policies;
  readonly nowMs: number;
}

/** The first promise that still keeps a checkpoint of the task. The head's read conflict covers all its records. */
async function promiseOfTask(
  tx: Tx,
  head: TaskRecord | null,
  context: PromiseContext,
): Promise<ShredPromise> {
  if (head === null) return null;
  const reader = tx.snapshot;
  const { begin: first, end } = tenantKeys(head.tenant).orderRange(head.task_id);
  for (let from = first; ; ) {
    const { rows, more } = await reader.getRange({ begin: from, end }, { limit: SLICE });
    for (const place of await openPlaces(reader, head, rows)) {
      const promise = promiseOfPlace(head, place, context);
      if (promise !== null) return promise;
    }
    const last = rows.at(-1);
    if (!more || last === undefined) return null;
    from = Buffer.concat([last.key, Buffer.of(0)]);
  }
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
