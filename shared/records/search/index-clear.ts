/**
 * Clearing the index before it is built anew: tenant by tenant, a bounded number of keys a step, so that no step holds up the
 * writers for long. How far it has come stands in the index state.
 */
import type { Bytes, KeyRange, Reader, Tx } from "../../store/store.ts";
import { after, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { type IndexState, writeIndexState } from "./index-state.ts";

const KEYS_PER_STEP = 4_000;

export interface ClearingPlan {
  readonly range: KeyRange | null;
  /** The tenant to go on with; null: all is cleared. */
  readonly next: string | null;
}

/** The next piece to clear: part of a range of `tenant`, or nothing but the step to the next tenant. */
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
