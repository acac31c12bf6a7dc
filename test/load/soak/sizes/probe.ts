// Loaded into every process of a soak and into each of its threads (`--import`): writes what only the thread itself knows into a file, again
// and again. The live heap is measured after a collection, because garbage would hide a slow leak for hours.

import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { threadId, threadName } from "node:worker_threads";
import type { ThreadSample } from "./sample.ts";

/** A collection stops the thread: on a busy machine it would otherwise do nothing else. */
const SHARE_MAX = 0.05;

const { SOAK_PROBE_FOLDER: folder, SOAK_PROBE_MS: everyMs } = process.env;

if (folder !== undefined && everyMs !== undefined) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const path = join(folder, `${process.pid}-${threadId}.json`);
  const write = (): void => {
    const begin = performance.now();
    collect();
    const { heapUsed, external } = process.memoryUsage();
    const sample: ThreadSample = {
      thread: threadName || "main",
      live_heap: heapUsed,
      external,
      handles: countedHandles(),
    };
    // Renamed, so that a reader never sees half of it.
    writeFileSync(`${path}.new`, JSON.stringify(sample));
    renameSync(`${path}.new`, path);
    const took = performance.now() - begin;
    setTimeout(write, Math.max(Number(everyMs), took / SHARE_MAX)).unref();
  };
  setTimeout(write, Number(everyMs)).unref();
}

function countedHandles(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
