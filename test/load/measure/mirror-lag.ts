// The time from a commit to its file in the mirror, from the files themselves: a rename sets the time of change of the file (ctime), and
// the checkpoint in it states when it was committed.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { percentile } from "./percentiles.ts";

export interface MirrorLag {
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
  readonly files: number;
  /** Committed checkpoints without a file when the time was up. */
  readonly missing: number;
}

const CATCH_UP_MS_MAX = 120_000;
const FILE = /^chk-.*\.json$/;

/** The files that are not in `before`. */
export function mirroredFiles(home: string, before: ReadonlySet<string> = new Set()): string[] {
  const root = join(home, "checkpoints");
  const tasks = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return tasks
    .flatMap(({ name }) => readdirSync(join(root, name)).map((file) => join(root, name, file)))
    .filter((path) => FILE.test(path.slice(path.lastIndexOf("/") + 1)) && !before.has(path));
}

/** Waits for the files of `committed` checkpoints that were written after `before`. */
export async function measureLag(
  home: string,
  before: ReadonlySet<string>,
  committed: number,
): Promise<MirrorLag> {
  let files = mirroredFiles(home, before);
  for (const end = Date.now() + CATCH_UP_MS_MAX; files.length < committed && Date.now() < end; ) {
    await sleep(500);
    files = mirroredFiles(home, before);
  }
  const lags = Float64Array.from(files, lagOf).sort();
  return {
    p50: percentile(lags, 0.5),
    p95: percentile(lags, 0.95),
    max: percentile(lags, 1),
    files: files.length,
    // A request without an answer in time may be committed too.
    missing: Math.max(0, committed - files.length),
  };
}

function lagOf(path: string): number {
  const { metadata } = JSON.parse(readFileSync(path, "utf8")) as { metadata: { committed_at: string } };
  return statSync(path).ctimeMs - Date.parse(metadata.committed_at);
}
