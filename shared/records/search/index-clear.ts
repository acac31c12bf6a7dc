/**
 * Clears the index before a rebuild: tenant by tenant, with a bounded number of keys in each step, so that no
 * step delays writers for long. The index state records the progress.
 */
import type { Bytes, KeyRange, Reader, Tx } from "../../store/store.ts";
import { after, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { type IndexState, writeIndexState } from "./index-state.ts";

const KEYS_PER_STEP = 4_000;

export interface ClearingPlan {
  readonly range: KeyRange | null;
  /** The tenant with which the next step continues; null: everything is cleared. */
  readonly next: string | null;
}

/**
 * The next range to clear. null when `tenant` is cleared, so that the step only advances to the next tenant.
 */
export async function planClearing(reader: Reader, tenant: string): Promise<ClearingPlan> {
  const keys = tenantKeys(tenant);
  for (const range of [keys.indexes(), keys.words(), keys.postedSteps(), keys.droppedWords()]) {
    const { rows } = await reader.getRange(range, { limit: KEYS_PER_STEP });
    const last: Bytes | undefined = rows.at(-1)?.key;
    if (last !== undefined) return { range: { begin: range.begin, end: after(last) }, next: tenant };
  }
  return { range: null, next: await tenantAfter(reader, tenant) };
}

export function writeClearing(tx: Tx, state: IndexState, plan: ClearingPlan): void {
  if (plan.range !== null) tx.clearRange(plan.range);
  if (plan.next !== state.clearing) writeIndexState(tx, { ...state, clearing: plan.next });
}
