/**
 * Returns the unused heap of an idle thread to the system. V8 collects garbage only while it allocates, so a program that has become idle
 * keeps the memory of its start, or of its last busy time, for hours. A collection stops the thread for a tenth of a second, and the next burst
 * of work must grow the heap again, for which a machine with slow page faults needs as long as for the work itself. So it waits until
 * requests have been rare for a minute, and happens once after each growth.
 */
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock } from "../clock.ts";
import type { Logger } from "../observability/log.ts";
import { startTicker } from "../ticker.ts";
import type { Stop } from "./service.ts";

const LOOK_EVERY_MS = 5_000;
/** The share of its time below which a thread counts as idle. */
const IDLE = 0.1;
const IDLE_LOOKS = 12;
/** Less is not worth the pause. */
const GROWTH_BYTES_MIN = 16 * 1024 * 1024;

/** What the release needs to know of its thread, for tests. */
export interface ThreadMemory {
  /** The busy share of the time since the last call, 0 to 1. */
  utilization(): number;
  /** The memory that the heap occupies, garbage included. */
  heapBytes(): number;
  collect(): void;
}

export function startMemoryRelease(
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  memory: ThreadMemory = ownMemory(),
): Stop {
  /** After the last collection. */
  let leftBytes = 0;
  /** In a row. */
  let idleLooks = 0;
  return startTicker({
    name: "memory release",
    everyMs: LOOK_EVERY_MS,
    run: async () => {
      const before = memory.heapBytes();
      // The heap may also have shrunk by itself.
      leftBytes = Math.min(leftBytes, before);
      idleLooks = memory.utilization() > IDLE ? 0 : idleLooks + 1;
      if (idleLooks < IDLE_LOOKS || before - leftBytes < GROWTH_BYTES_MIN) return;
      memory.collect();
      leftBytes = memory.heapBytes();
      log.debug({ heap_bytes: leftBytes, released_bytes: before - leftBytes }, "unused memory released");
    },
    clock,
    log,
  });
}

export function ownMemory(): ThreadMemory {
  // Node offers the collector under this flag only. A flag that is set later applies to new contexts.
  setFlagsFromString("--expose-gc");
  const collector = runInNewContext("gc") as (options: object) => void;
  let last = performance.eventLoopUtilization();
  return {
    utilization() {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, last);
      last = now;
      return utilization;
    },
    heapBytes: () => getHeapStatistics().total_heap_size,
    // The last resort also shrinks the space of young objects, which the start has enlarged.
    collect: () => collector({ type: "major", execution: "sync", flavor: "last-resort" }),
  };
}
