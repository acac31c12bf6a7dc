/**
 * Damage that a service reports between two passes: a damaged head or open handoff is kept as the same
 * finding that the scrub would make. So it is listed at once, the scrubber alerts operators, and the next
 * pass finds known damage.
 */
import { LIMITS } from "../../protocol/limits.ts";
import type { Transactions } from "../kv/transactions.ts";
import { keepFindings } from "./findings.ts";
import { type FoundDamage, ScrubStep, TaskScrub } from "./scrub-reader.ts";
import { readScrubState, writeScrubState } from "./state.ts";
import { verifyHead } from "./task/head.ts";
import { verifyOpenHandoff } from "./task/links.ts";

/** Returns the new findings. A concurrent step of a pass is repeated. */
export async function keepReportedDamage(
  transactions: Transactions,
  { tenant, task }: { readonly tenant: string; readonly task: string },
  nowMs: number,
): Promise<readonly FoundDamage[]> {
  const damages = await transactions.read("verify_met", async (reader) => {
    const step = new ScrubStep(reader, { passBeganMs: nowMs, bytesMax: LIMITS.scrub_step_bytes_max });
    const scrub = new TaskScrub(step, tenant, task, { canMark: false, found: 0 });
    await verifyHead(scrub);
    await verifyOpenHandoff(scrub);
    return step.damages;
  });
  if (damages.length === 0) return [];
  const { value } = await transactions.transact("keep_met", async (tx) => {
    const state = await readScrubState(tx);
    const fresh = await keepFindings(tx, damages, { pass: state.passes, nowMs });
    if (fresh.length > 0) writeScrubState(tx, { ...state, untold: state.untold + fresh.length });
    return fresh;
  });
  return value;
}
