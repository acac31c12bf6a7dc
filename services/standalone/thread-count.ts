/**
 * How many service threads work. One answers soonest as long as it can keep up: every further one has its own commits and its own
 * background work, and takes processor time from the rest. So another one joins only when those at work are full, and rests again when
 * fewer would do.
 */

export interface ThreadCount {
  /** Takes one sample, the share of its time that each working thread was busy (0 to 1), and says how many shall work. */
  sample(utilizations: readonly number[], nowMs: number): number;
}

export const SAMPLE_MS = 250;
/** Short of it a thread still answers in time. */
const FULL = 0.97;
const FULL_FOR_MS = 1_500;
/** Busy time of all, for each thread that would be left. More than one: the same work takes two threads more time than it takes one. */
const ROOM = 1.2;
const ROOM_FOR_MS = 2_500;

export function createThreadCount(countMax: number): ThreadCount {
  let fullSince: number | null = null;
  let roomSince: number | null = null;
  return {
    sample(utilizations, nowMs) {
      const count = utilizations.length;
      const isFull = utilizations.every((share) => share >= FULL);
      const sum = utilizations.reduce((total, share) => total + share, 0);
      const hasRoom = count > 1 && sum < ROOM * (count - 1);
      fullSince = isFull ? (fullSince ?? nowMs) : null;
      roomSince = hasRoom ? (roomSince ?? nowMs) : null;
      if (fullSince !== null && count < countMax && nowMs - fullSince >= FULL_FOR_MS) {
        fullSince = null;
        return count + 1;
      }
      if (roomSince !== null && nowMs - roomSince >= ROOM_FOR_MS) {
        roomSince = null;
        return count - 1;
      }
      return count;
    },
  };
}
