/**
 * Finds the checkpoints that a target has not anchored. The anchor is made between the read and the transaction that records
 * it. If the process dies there, or another instance has taken over, the next step makes the anchor again: a target
 * recognises its own, and a second time-stamp of the same checkpoint does no harm.
 */
import type { AnchorTarget } from "../../protocol/audit-anchors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Reader, Store, Tx } from "../../store/store.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { lastAnchors, type StoredAnchor, writeAnchor } from "./anchor-records.ts";
import { LOG_READ_DEADLINE_MS, LOG_WRITE } from "./log-job.ts";
import { isOfOneLog, readLog, readLogPosition } from "./log-records.ts";

/** Tenants in one read. */
const PAGE_TENANTS = 50;

export interface UnanchoredLog {
  readonly tenant: string;
  readonly size: number;
  readonly checkpoint: string;
  /** When the log began, which is how long it has waited if it was never anchored. */
  readonly beganAt: string | null;
  /** null: it was never anchored. */
  readonly last: StoredAnchor | null;
  /** Whether a longer log of the tenant was anchored: the store is an older copy, or its log was cut off. */
  readonly isCut: boolean;
  /** Whether the newest checkpoint is anchored. Then only the cut is to be reported. */
  readonly isAnchored: boolean;
}

export interface UnanchoredPage {
  readonly logs: readonly UnanchoredLog[];
  /** The tenant with which the next page begins. null: this is the last one. */
  readonly next: string | null;
}

/** Rises with each change of any log. */
export function readLogSteps(store: Store): Promise<number> {
  const options = { label: "anchor_steps", deadlineMs: LOG_READ_DEADLINE_MS };
  return store.read(options, async (reader) => (await readLogPosition(reader)).steps);
}

/** A damaged log, and one whose checkpoint is not signed, has nothing to anchor. */
export function readUnanchored(
  store: Store,
  target: AnchorTarget,
  from: string = DEFAULT_TENANT,
): Promise<UnanchoredPage> {
  const options = { label: "plan_anchors", deadlineMs: LOG_READ_DEADLINE_MS };
  return store.read(options, async (reader) => {
    const tenants: string[] = [];
    let next: string | null = from;
    for (; tenants.length < PAGE_TENANTS && next !== null; next = await tenantAfter(reader, next))
      tenants.push(next);
    const logs = await Promise.all(tenants.map((tenant) => unanchoredIn(reader, tenant, target)));
    return { logs: logs.flatMap((log) => log ?? []), next };
  });
}

async function unanchoredIn(
  reader: Reader,
  tenant: string,
  target: AnchorTarget,
): Promise<UnanchoredLog | null> {
  try {
    const { size, note: checkpoint, at, began_at: beganAt = at } = await readLog(reader, tenant);
    if (size === 0 || checkpoint === null) return null;
    const { last, isCut } = await lastAnchors(reader, { tenant, target }, size);
    const isAnchored = last?.size === size;
    return isAnchored && !isCut ? null : { tenant, size, checkpoint, beganAt, last, isCut, isAnchored };
  } catch (error) {
    if (isOfOneLog(error)) return null;
    throw error;
  }
}

export async function recordAnchor(
  { store, guard }: { readonly store: Store; readonly guard: (tx: Tx) => Promise<void> },
  place: { readonly tenant: string; readonly target: AnchorTarget },
  anchor: StoredAnchor,
): Promise<void> {
  await store.transact({ ...LOG_WRITE, label: "record_anchor" }, async (tx) => {
    await guard(tx);
    writeAnchor(tx, place, anchor);
  });
}
