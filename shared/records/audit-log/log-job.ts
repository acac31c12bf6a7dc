/**
 * Appends new audit entries to the log of their tenant, step by step. A step is planned on a snapshot and written in one
 * short transaction: the leaves, the number of each entry, the position in the feed and the signed checkpoint. So
 * after a crash no entry is missing and none is there twice.
 */
import { isSameHash } from "../../integrity/merkle/hashes.ts";
import { DamagedTree, type GrownTree, growTree } from "../../integrity/merkle/tree.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Reader, Store, Tx } from "../../store/store.ts";
import { markLogDue } from "../audit/log-due.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { signLog } from "../signing/commit-signing.ts";
import { type LoggedEntry, type LogPlan, planLog } from "./log-plan.ts";
import {
  type AuditLog,
  damagedLog,
  encodePlace,
  encodeTile,
  lastPlaced,
  logOrigin,
  readLog,
  readLogPosition,
  tilesOf,
  writeLog,
  writeLogPosition,
} from "./log-records.ts";

const READ_DEADLINE_MS = 3_000;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;
/** Tenants in one transaction of the walk. */
const WALK_TENANTS = 50;

export interface AuditLogging {
  readonly store: Store;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
  readonly now: () => number;
}

export interface LogStep {
  readonly appended: number;
  readonly tenants: number;
  readonly unreadable: number;
  /** Whether another step can follow at once. */
  readonly more: boolean;
}

interface GrownLog extends GrownTree {
  readonly tenant: string;
  readonly first: number;
  readonly entries: readonly LoggedEntry[];
}

/** Makes one step. null: there was nothing to do. */
export async function stepAuditLog({ store, guard, now }: AuditLogging): Promise<LogStep | null> {
  const options = { label: "plan_log", deadlineMs: READ_DEADLINE_MS };
  const { position, plan, grown } = await store.read(options, async (reader) => {
    const position = await readLogPosition(reader);
    const plan = await planLog(reader, position);
    const logs = [...plan.tenants].map(([tenant, entries]) => growLog(reader, tenant, entries));
    return { position, plan, grown: await Promise.all(logs) };
  });
  const appended = grown.reduce((sum, { entries }) => sum + entries.length, 0);
  if (plan.cursor === position.cursor && plan.done.length === 0 && appended === 0) return null;
  const at = new Date(now()).toISOString();
  // Safe to repeat: a second run finds another position and writes nothing.
  const { value: isWritten } = await store.transact({ ...WRITE, label: "write_log" }, async (tx) => {
    await guard(tx);
    const { steps, entries } = await readLogPosition(tx);
    if (steps !== position.steps) return false;
    await clearDone(tx, plan);
    for (const log of grown) writeGrown(tx, log, at);
    writeLogPosition(tx, { cursor: plan.cursor, steps: steps + 1, entries: entries + appended });
    return true;
  });
  if (!isWritten) return { appended: 0, tenants: 0, unreadable: 0, more: true };
  return { appended, tenants: grown.length, unreadable: plan.unreadable, more: plan.more };
}

async function growLog(reader: Reader, tenant: string, entries: readonly LoggedEntry[]): Promise<GrownLog> {
  const { size, root } = await readLog(reader, tenant);
  const leaves = entries.map(({ leaf }) => leaf);
  const tree = await growTree(tilesOf(reader, tenantKeys(tenant)), size, leaves).catch((error: unknown) => {
    throw error instanceof DamagedTree ? damagedLog(tenant, error) : error;
  });
  // A checkpoint over changed tiles would contradict the earlier ones.
  if (!isSameHash(tree.rootBefore, root)) throw damagedLog(tenant);
  return { ...tree, tenant, first: size, entries };
}

function writeGrown(tx: Tx, { tenant, first, entries, size, root, tiles }: GrownLog, at: string): void {
  const keys = tenantKeys(tenant);
  for (const { level, n, bytes } of tiles) tx.set(keys.logTile(level, n), encodeTile(bytes));
  for (const [i, { task, seq }] of entries.entries())
    tx.set(keys.logPlace(task, seq), encodePlace(first + i));
  const note = signLog(tx, { origin: logOrigin(tenant), size, root });
  writeLog(tx, tenant, { size, root, note, at } satisfies AuditLog);
}

/** A row that has changed since is of an entry that the plan does not have. */
async function clearDone(tx: Tx, { done }: LogPlan): Promise<void> {
  const values = await tx.getMany(done.map(({ key }) => key));
  for (const [i, { key, value }] of done.entries()) {
    const now = values[i];
    if (now !== undefined && isSameHash(now, value)) tx.clear(key);
  }
}

/**
 * Marks the tenants whose chains have entries of an earlier version, which marked none. Returns the tenant with which
 * the next call continues; null: all are marked.
 */
export async function markUnloggedActs(
  { store, guard }: Pick<AuditLogging, "store" | "guard">,
  from: string = DEFAULT_TENANT,
): Promise<string | null> {
  const reading = { label: "walk_log", deadlineMs: READ_DEADLINE_MS };
  const { next, behind } = await store.read(reading, async (reader) => {
    const behind: { tenant: string; seq: number }[] = [];
    let tenant: string | null = from;
    for (let i = 0; i < WALK_TENANTS && tenant !== null; i += 1) {
      const keys = tenantKeys(tenant);
      const { rows } = await reader.getRange(keys.tenantAudits(), { limit: 1, reverse: true });
      const seq = rows[0] === undefined ? 0 : parseSeq(rows[0].key);
      if (seq > (await lastPlaced(reader, keys, null))) behind.push({ tenant, seq });
      tenant = await tenantAfter(reader, tenant);
    }
    return { next: tenant, behind };
  });
  if (behind.length > 0)
    await store.transact({ ...WRITE, label: "mark_log" }, async (tx) => {
      await guard(tx);
      for (const { tenant, seq } of behind) markLogDue(tx, tenant, seq);
    });
  return next;
}
