/**
 * The incarnation of a store: 1, until a backup of it is restored. The future after the backup is then lost to the store, but not to agents, the bus
 * and consumers of events. What the restored store gives out must differ from all that the lost future gave out, also if one backup is
 * restored twice. So the incarnation is the time of the restore, and fences and the ids of events follow from it.
 */
const EPOCH_MS = Date.UTC(2025, 0, 1);
const FIRST = 1;
/** No task is taken so often in a second, for long. */
const FENCES_PER_SECOND = 250;

/** The incarnation of a store that is restored now; `before`: that of the backup. */
export function nextIncarnation(before: number, nowMs: number): number {
  return Math.max(before + 1, Math.ceil((nowMs - EPOCH_MS) / 1_000));
}

/** All fences that were given out before this incarnation are lower. 0: there was no restore. */
export function fenceFloorOf(incarnation: number): number {
  return incarnation === FIRST ? 0 : incarnation * FENCES_PER_SECOND;
}

/** The id of an event. An id of the lost future has another incarnation, or none. */
export function eventIdOf(
  { tenant, task }: { readonly tenant: string; readonly task: string },
  seq: number,
  incarnation: number,
): string {
  const id = `${tenant}/${task}/${seq}`;
  return incarnation === FIRST ? id : `${id}@${incarnation}`;
}
