/**
 * Progress that counts: more items completed than any checkpoint of the task had before. Words, percentages and items that are completed
 * over and over are none (guarantee 11).
 */
import type { UnsealedCheckpoint } from "../../protocol/checkpoint.ts";

export type Work = Pick<UnsealedCheckpoint, "execution_state">;

/** Different items that a checkpoint says are completed. */
export function completedItems({ execution_state }: Work): number {
  const names = execution_state.completed_items.map((item) => ("id" in item && item.id) || item.title);
  return new Set(names).size;
}
