/**
 * Appends new audit entries to the log of their tenant, step by step. A step is planned on a snapshot and written in one
 * short transaction: the leaves, the number of each entry, the position in the feed and the signed checkpoint. So
 * after a crash no entry is missing and none is there twice. A tenant whose log is damaged is left aside, and the
 * position passes its entries: `log-catch-up.ts` appends them later.
 */
import { isSameHash } from "../../integrity/merkle/hashes.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Reader, Store, Tx } from "../../store/store.ts";
import { readBehindLog, writeBehindLog } from "./log-behind.ts";
import type { ChainEnds } from "./log-entries.ts";
import { type GrownLog, growOrFail, leavesIn, writeGrown } from "./log-growth.ts";
import { type LogPlan, planLog } from "./log-plan.ts";
import { type LogPosition, readLogPosition, writeLogPosition } from "./log-records.ts";

export const LOG_READ_DEADLINE_MS = 3_000;
export const LOG_WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface AuditLogging {
  readonly store: Store;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
  readonly now: () => number;
  /** What steps before have verified. */
  readonly ends?: ChainEnds;
}

export interface LogStep {
  readonly appended: number;
  readonly tenants: number;
  /** Entries that are damaged. They have a place without a leaf. */
  readonly unreadable: number;
  /** Damaged rows of the feed. */
  readonly damagedRows: number;
  /** The tenants whose log was left aside, each with the reason. */
  readonly damaged: ReadonlyMap<string, FleetError>;
  /** Whether another step can follow at once. */
  readonly more: boolean;
}

/** Makes one step. null: there was nothing to do. */
export async function stepAuditLog(logging: AuditLogging): Promise<LogStep | null> {
  const { store, now, ends } = logging;
  const options = { label: "plan_log", deadlineMs: LOG_READ_DEADLINE_MS };
  const { position, plan, grown, damaged } = await store.read(options, async (reader) => {
    const position = await readLogPosition(reader);
    const plan = await planLog(reader, position, ends);
    return { position, plan, ...(await growLogs(reader, plan)) };
  });
  const { cursor, done, damagedRows, more } = plan;
  const entries = grown.flatMap((log) => log.entries);
  const isIdle =
    cursor === position.cursor && done.length === 0 && entries.length === 0 && damaged.size === 0;
  if (isIdle) return null;
  const appended = leavesIn(entries);
  const at = new Date(now()).toISOString();
  const behind = [...plan.behind].filter((tenant) => !damaged.has(tenant));
  const isWritten = await writeStep(logging, position, async (tx) => {
    await clearDone(tx, plan);
    for (const log of grown) writeGrown(tx, log, at);
    for (const tenant of damaged.keys()) writeBehindLog(tx, { tenant, isDamaged: true, task: null });
    // A row that exists keeps its position: the chains after it are compared anyway.
    for (const tenant of behind)
      if ((await readBehindLog(tx, tenant)) === null)
        writeBehindLog(tx, { tenant, isDamaged: false, task: null });
    return { cursor, entries: position.entries + appended };
  });
  const nothing = { appended: 0, tenants: 0, unreadable: 0, damagedRows: 0, damaged: new Map() };
  if (!isWritten) return { ...nothing, more: true };
  return {
    appended,
    tenants: grown.length,
    unreadable: entries.length - appended,
    damagedRows,
    damaged,
    more,
  };
}

async function growLogs(
  reader: Reader,
  { tenants, failed }: LogPlan,
): Promise<{ readonly grown: readonly GrownLog[]; readonly damaged: ReadonlyMap<string, FleetError> }> {
  const logs = await Promise.all(
    [...tenants].map(
      async ([tenant, entries]) => [tenant, await growOrFail(reader, tenant, entries)] as const,
    ),
  );
  const damaged = new Map(failed);
  for (const [tenant, log] of logs) if (log instanceof FleetError) damaged.set(tenant, log);
  return { grown: logs.flatMap(([, log]) => (log instanceof FleetError ? [] : [log])), damaged };
}

/** Writes a step that was planned at this position. False: another instance has overtaken it, and nothing is written. */
export async function writeStep(
  { store, guard }: AuditLogging,
  planned: LogPosition,
  write: (tx: Tx) => Promise<Omit<LogPosition, "steps">>,
): Promise<boolean> {
  // Safe to repeat: a second run finds another position and writes nothing.
  const { value } = await store.transact({ ...LOG_WRITE, label: "write_log" }, async (tx) => {
    await guard(tx);
    const { steps } = await readLogPosition(tx);
    if (steps !== planned.steps) return false;
    writeLogPosition(tx, { ...(await write(tx)), steps: steps + 1 });
    return true;
  });
  return value;
}

/** A row that has changed since is of an entry that the plan does not have. */
async function clearDone(tx: Tx, { done }: LogPlan): Promise<void> {
  const values = await tx.getMany(done.map(({ key }) => key));
  for (const [i, { key, value }] of done.entries()) {
    const now = values[i];
    if (now !== undefined && isSameHash(now, value)) tx.clear(key);
  }
}
