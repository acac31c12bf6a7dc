/**
 * A task that somebody met and could do nothing with, before a pass came by it: its head, or its open handoff, is kept as the finding that the
 * scrub would make of it, so that it is listed at once, people are told by whoever scrubs, and the next pass meets what is known.
 */
import { LIMITS } from "../../protocol/limits.ts";
import type { Transactions } from "../kv/transactions.ts";
import { keepFindings } from "./findings.ts";
import { verifyHead } from "./head.ts";
import { verifyOpenHandoff } from "./links.ts";
import { type FoundDamage, ScrubStep, Sight } from "./scrub-reader.ts";
import { readScrubState, writeScrubState } from "./state.ts";

/** Returns what nobody had met before. The step of a pass that is under way meanwhile is made again. */
export async function keepMet(
  transactions: Transactions,
  { tenant, task }: { readonly tenant: string; readonly task: string },
  nowMs: number,
): Promise<readonly FoundDamage[]> {
  const damages = await transactions.read("verify_met", async (reader) => {
    const step = new ScrubStep(reader, { passBeganMs: nowMs, bytesMax: LIMITS.scrub_step_bytes_max });
    const sight = new Sight(step, tenant, task, { canMark: false, found: 0 });
    await verifyHead(sight);
    await verifyOpenHandoff(sight);
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
