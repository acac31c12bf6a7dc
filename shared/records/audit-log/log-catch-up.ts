/**
 * Appends what the log of a tenant lacks while it was damaged: the entries of the chains of all its tasks, one task after
 * the other. The first step in which the log is sound again marks it as such, and from then on the steps of all tenants
 * append its new entries and those of the operators. So a chain that was complete once stays complete.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { Reader } from "../../store/store.ts";
import { markLogDue } from "../audit/log-due.ts";
import { parseTask, tenantKeys } from "../kv/keyspace.ts";
import { type BehindLog, clearBehindLog, readBehindLogs, writeBehindLog } from "./log-behind.ts";
import { type LoggedEntry, readUnlogged } from "./log-entries.ts";
import { growOrFail, leavesIn, writeGrown } from "./log-growth.ts";
import { type AuditLogging, LOG_READ_DEADLINE_MS, writeStep } from "./log-job.ts";
import { isOfOneLog, readLogPosition } from "./log-records.ts";

/** The limits of a step. */
const TASKS_MAX = 50;
const ENTRIES_MAX = 400;
/** Of one chain: what is read is bounded by its size too. */
const CHAIN_MAX = 100;
const BYTES_MAX = 4_000_000;

export interface CatchUpStep {
  readonly tenant: string;
  readonly appended: number;
  readonly unreadable: number;
  /** Why the log cannot be written. null: it is sound. */
  readonly error: FleetError | null;
  /** Whether the log has chains left to compare. */
  readonly more: boolean;
}

/** Makes a step for the first tenant that is behind after `tenant`. null: there is none. */
export async function stepCatchUp(logging: AuditLogging, tenant: string | null): Promise<CatchUpStep | null> {
  const options = { label: "catch_up_log", deadlineMs: LOG_READ_DEADLINE_MS };
  const plan = await logging.store.read(options, async (reader) => {
    const [behind] = await readBehindLogs(reader, tenant, 1);
    return behind === undefined ? null : planCatchUp(reader, behind);
  });
  if (plan === null) return null;
  const { behind, position, chains, log } = plan;
  if (log instanceof FleetError) {
    if (!behind.isDamaged)
      await writeStep(logging, position, async (tx) => {
        writeBehindLog(tx, { ...behind, isDamaged: true, task: null });
        return position;
      });
    return { tenant: behind.tenant, appended: 0, unreadable: 0, error: log, more: false };
  }
  const appended = leavesIn(log.entries);
  const at = new Date(logging.now()).toISOString();
  const isWritten = await writeStep(logging, position, async (tx) => {
    writeGrown(tx, log, at);
    // Its row was cleared while the log was damaged.
    if (behind.isDamaged) markLogDue(tx, behind.tenant, 0);
    if (chains.more) writeBehindLog(tx, { tenant: behind.tenant, isDamaged: false, task: chains.task });
    else clearBehindLog(tx, behind.tenant);
    return { ...position, entries: position.entries + appended };
  });
  const written = isWritten
    ? { appended, unreadable: log.entries.length - appended }
    : { appended: 0, unreadable: 0 };
  return { tenant: behind.tenant, ...written, error: null, more: chains.more || !isWritten };
}

async function planCatchUp(reader: Reader, behind: BehindLog) {
  const position = await readLogPosition(reader);
  const chains = await nextChains(reader, behind).catch((error: unknown) => {
    if (isOfOneLog(error)) return error;
    throw error;
  });
  if (chains instanceof FleetError)
    return { behind, position, chains: { entries: [], task: null, more: false }, log: chains };
  return { behind, position, chains, log: await growOrFail(reader, behind.tenant, chains.entries) };
}

interface NextChains {
  readonly entries: readonly LoggedEntry[];
  /** The last task whose chain is complete then. */
  readonly task: string | null;
  readonly more: boolean;
}

async function nextChains(reader: Reader, { tenant, task: from, isDamaged }: BehindLog): Promise<NextChains> {
  const keys = tenantKeys(tenant);
  const entries: LoggedEntry[] = [];
  let last = from;
  let bytes = 0;
  // The chain of operators is appended elsewhere. If it cannot be, the log is not sound.
  if (isDamaged) await readUnlogged(reader, { tenant, task: null }, CHAIN_MAX);
  for (let i = 0; i < TASKS_MAX && entries.length < ENTRIES_MAX && bytes < BYTES_MAX; i += 1) {
    const { rows } = await reader.getRange(keys.ofTasksAfter("audit", last), { limit: 1 });
    if (rows[0] === undefined) return { entries, task: last, more: false };
    const task = parseTask(rows[0].key);
    const limit = Math.min(CHAIN_MAX, ENTRIES_MAX - entries.length);
    const chain = await readUnlogged(reader, { tenant, task }, limit);
    entries.push(...chain.entries);
    bytes += chain.entries.reduce((sum, entry) => sum + entry.bytes, 0);
    if (chain.more) break;
    last = task;
  }
  return { entries, task: last, more: true };
}
