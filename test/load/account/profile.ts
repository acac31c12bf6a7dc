// CPU profiles of the fleet's threads, as Node writes them at the end of each thread: the samples of a time, by part.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { projectRoot } from "../../harness/project-root.ts";
import { type Frame, type Part, partOf } from "./parts.ts";

/** The form of V8. Times are microseconds of the monotonic clock. */
export interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string };
  readonly children?: readonly number[];
}

/** Microseconds of the monotonic clock. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** Twice that of Node: the profiler takes a tenth of the processor with its own. */
const INTERVAL_US = 2_000;

export const monotonicUs = (): number => Number(process.hrtime.bigint() / 1_000n);

/** The arguments with which Node writes the profiles of all its threads to a folder. */
export const profileFlags = (folder: string): readonly string[] => [
  "--cpu-prof",
  `--cpu-prof-dir=${folder}`,
  `--cpu-prof-interval=${INTERVAL_US}`,
];

/** The profiles of one process. It must have ended. */
export function readProfiles(folder: string, pid: number): CpuProfile[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".cpuprofile") && name.split(".")[3] === String(pid))
    .map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as CpuProfile);
}

function frameOf({ callFrame: { functionName: name, url } }: ProfileNode): Frame {
  const file = url.startsWith("file://") ? fileURLToPath(url) : url;
  const packages = file.lastIndexOf("node_modules/");
  if (packages >= 0) return { path: file.slice(packages), name };
  const root = projectRoot.endsWith("/") ? projectRoot : `${projectRoot}/`;
  return { path: file.startsWith(root) ? file.slice(root.length) : file, name };
}

/** Whether the thread ran this file. */
export function runs({ nodes }: CpuProfile, program: string): boolean {
  return nodes.some((node) => frameOf(node).path === program);
}

/**
 * The number of samples of each part in the time. A waiting thread takes no samples of other parts, and one that waits for a processor takes
 * one at most, so the numbers divide the processor time and not the time of the clock.
 */
export function samplesByPart(profile: CpuProfile, { from, to }: TimeSpan): Map<Part, number> {
  const parts = partsOfNodes(profile.nodes);
  const counts = new Map<Part, number>();
  let at = profile.startTime;
  for (const [i, id] of profile.samples.entries()) {
    at += profile.timeDeltas[i]!;
    if (at < from || at >= to) continue;
    const part = parts.get(id) ?? null;
    if (part !== null) counts.set(part, (counts.get(part) ?? 0) + 1);
  }
  return counts;
}

function partsOfNodes(nodes: readonly ProfileNode[]): Map<number, Part | null> {
  const callers = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const frames = new Map(nodes.map((node) => [node.id, frameOf(node)]));
  const stackOf = (id: number): Frame[] => {
    const stack: Frame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = callers.get(at)) stack.push(frames.get(at)!);
    // The root of all stacks is no function.
    return stack.length > 1 ? stack.slice(0, -1) : stack;
  };
  return new Map(nodes.map(({ id }) => [id, partOf(stackOf(id))]));
}
