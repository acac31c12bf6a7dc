/**
 * The number of working service threads. One thread answers fastest as long as it keeps up: every further one has commits and background
 * work of its own, and takes processor time from the others. So another thread joins only when all working threads are saturated, and
 * rests again when fewer are enough.
 */

export interface ThreadCount {
  /** Takes one sample, the busy share (0 to 1) of each working thread, and returns the wanted number of threads. */
  sample(utilizations: readonly number[], nowMs: number): number;
}

export const SAMPLE_MS = 250;
/** Without load: a burst costs the next sample at most this, and an idle process is not woken four times a second. */
export const CALM_MS = 2_000;
/** Below this share of every working thread there is no load. */
export const CALM = 0.1;
/** Below this share a thread still answers in time. */
const SATURATED = 0.97;
const SATURATED_FOR_MS = 1_500;
/** The summed busy shares per thread that would be left. More than one, because two threads take more time for the same work than one. */
const SPARE = 1.2;
const SPARE_FOR_MS = 2_500;

export function createThreadCount(countMax: number): ThreadCount {
  let saturatedSince: number | null = null;
  let spareSince: number | null = null;
  return {
    sample(utilizations, nowMs) {
      const count = utilizations.length;
      const isSaturated = utilizations.every((share) => share >= SATURATED);
      const sum = utilizations.reduce((total, share) => total + share, 0);
      const hasSpare = count > 1 && sum < SPARE * (count - 1);
      saturatedSince = isSaturated ? (saturatedSince ?? nowMs) : null;
      spareSince = hasSpare ? (spareSince ?? nowMs) : null;
      if (saturatedSince !== null && count < countMax && nowMs - saturatedSince >= SATURATED_FOR_MS) {
        saturatedSince = null;
        return count + 1;
      }
      if (spareSince !== null && nowMs - spareSince >= SPARE_FOR_MS) {
        spareSince = null;
        return count - 1;
      }
      return count;
    },
  };
}
