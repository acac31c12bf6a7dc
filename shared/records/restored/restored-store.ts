/**
 * The first work on a store that was restored from a backup. Agents, the bus and consumers of events know a future that this store has lost. So
 * every task loses its owner, and its fence rises above all that were given out before, in an audited transition. No service may use
 * the store meanwhile. Each part may run twice: a killed restore is repeated, and continues.
 */
import { decisionOfService } from "../../lifecycle/decision.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { AuditActor } from "../audit/audit.ts";
import { stateRestore } from "../audit-log/restore-statements.ts";
import { decode, encode } from "../kv/codec.ts";
import type { Format, StoreRestore } from "../kv/format.ts";
import { fenceFloorOf, nextIncarnation } from "../kv/incarnation.ts";
import { parseTask, systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { decodeSoundHead } from "../task/head.ts";
import { writeTransitions } from "../task/transitions.ts";

const SERVICE = "restore";
/** Tasks in one transaction. */
const SLICE = 25;
/** A task from another fleet may have a fence above the floor; the lost future has taken it less often than that. */
const IMPORTED_FENCE_STEP = 1_000_000;
const transacting = { deadlineMs: 10_000, onUnknown: "safe" } as const;

export interface RestoredStore {
  readonly incarnation: number;
  readonly tasks: number;
  /** Tasks that had an owner. */
  readonly superseded: number;
  /** Tasks whose heads are damaged; no command on them is possible anyway. */
  readonly damaged: number;
}

/** The times of a backup and of its restore, and the principal that restores it. */
export interface RestoreFacts {
  /** Of the backup, ISO 8601. */
  readonly backupAt: string;
  /** The backup has the rows of the store, and no other bytes of its file. Absent: not known. */
  readonly isOfRows?: boolean;
  readonly nowMs: number;
  readonly actor: AuditActor;
}

/** Throws CONFLICT if the clock is before the backup, because fences of the lost future might be given out again. */
export async function supersedeAll(
  store: Store,
  { backupAt, isOfRows = false, nowMs, actor }: RestoreFacts,
): Promise<RestoredStore> {
  if (!(nowMs >= Date.parse(backupAt)))
    throw new FleetError("CONFLICT", "the clock of this machine is before the time of the backup", {
      details: { now: new Date(nowMs).toISOString(), backup_at: backupAt },
    });
  const restore = { at: new Date(nowMs).toISOString(), backup_at: backupAt };
  const format = await beginRestore(store, { ...restore, ...(isOfRows && { rows_only: true }) });
  const { incarnation } = format;
  const done = { tasks: 0, superseded: 0, damaged: 0 };
  for (let isDone = false; !isDone; ) {
    const part = await supersedeSlice(store, { nowMs, actor });
    done.tasks += part.tasks;
    done.superseded += part.superseded;
    done.damaged += part.damaged;
    isDone = part.isDone;
  }
  return { incarnation, ...done };
}

/** Begins a restore, or finds the one that was interrupted, with its incarnation. */
async function beginRestore(store: Store, restore: Omit<StoreRestore, "next">): Promise<Format> {
  const { value } = await store.transact({ label: "restore_begin", ...transacting }, async (tx) => {
    const found = await formatIn(tx);
    if (found.restored?.next) return found;
    const incarnation = nextIncarnation(found.incarnation, Date.parse(restore.at));
    const next = { tenant: DEFAULT_TENANT, after: null };
    const format: Format = { ...found, incarnation, restored: { ...restore, next } };
    tx.set(systemKeys.meta("format"), encode(format));
    return format;
  });
  return value;
}

async function formatIn(tx: Tx): Promise<Format> {
  const value = await tx.get(systemKeys.meta("format"));
  if (value === undefined) throw new FleetError("NOT_FOUND", "the store holds no data of Fleet");
  return decode<Format>(value);
}

/** The place in the store moves in the transaction of the tasks before it, so that none is superseded twice. */
async function supersedeSlice(store: Store, { nowMs, actor }: Pick<RestoreFacts, "nowMs" | "actor">) {
  const { value } = await store.transact({ label: "restore_tasks", ...transacting }, async (tx) => {
    const format = await formatIn(tx);
    const { restored, incarnation } = format;
    const done = { tasks: 0, superseded: 0, damaged: 0, isDone: true };
    if (!restored?.next) return done;
    const { tenant, after } = restored.next;
    // With the first tasks of a tenant, so that the chain of each has one statement of each restore.
    if (after === null)
      await stateRestore(tx, tenant, { actor, at: restored.at, backupAt: restored.backup_at });
    const keys = tenantKeys(tenant);
    const { begin, end } = keys.tasks();
    const from = after === null ? begin : Buffer.concat([keys.task(after), Buffer.from([0x00])]);
    const { rows, more } = await tx.getRange({ begin: from, end }, { limit: SLICE });
    const last = rows.at(-1);
    const following = more && last !== undefined ? tenant : await tenantAfter(tx, tenant);
    const next =
      following === null
        ? null
        : {
            tenant: following,
            after: following === tenant && last !== undefined ? parseTask(last.key) : null,
          };
    tx.set(
      systemKeys.meta("format"),
      encode({ ...format, restored: { ...restored, next } } satisfies Format),
    );
    const heads = rows.map(({ value: row }) => decodeSoundHead(row));
    for (const head of heads) {
      if (head === null) done.damaged += 1;
      else supersede(tx, head, { incarnation, nowMs, backupAt: restored.backup_at });
    }
    const owned = heads.filter((head) => head !== null && head.owner !== null);
    return { ...done, tasks: rows.length, superseded: owned.length, isDone: next === null };
  });
  return value;
}

interface Superseding {
  readonly incarnation: number;
  readonly nowMs: number;
  readonly backupAt: string;
}

function supersede(tx: Tx, head: TaskRecord, { incarnation, nowMs, backupAt }: Superseding): void {
  const { tenant, task_id: task, owner } = head;
  const fence = Math.max(fenceFloorOf(incarnation), head.fence + IMPORTED_FENCE_STEP);
  const { transitions } = decisionOfService(head, SERVICE, nowMs).add("store_restore", {
    facts: { owner_from: owner, owner_to: null, fence_to: fence, backup_at: backupAt },
    event: { type: "TASK_RELEASED", data: { taskId: task, agentId: owner ?? SERVICE, fence } },
  });
  const actor = { id: SERVICE, type: "service" } as const;
  const author = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent: undefined };
  writeTransitions(tx, tenantKeys(tenant), author, head, transitions);
}
