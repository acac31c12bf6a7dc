/**
 * The rolling replacement of all processes of a fleet: one after the other stops by SIGTERM, and a process of the other tree takes its place
 * when it has ended. The order is that of deploy/UPGRADES.md, and the reverse one on the way back. A short run replaces up to three at a time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { instant } from "../agents/history.ts";
import type { FaultFleet, Replaceable } from "../environment/fleet.ts";
import type { Nemesis } from "../plan/nemesis.ts";

/** One at a time takes longer than a short run has. */
const ONE_BY_ONE_MS = 60_000;

export type RollingResult = Pick<Nemesis, "counts" | "kills" | "periods">;

/** A run of any duration goes up and back at least once; a long one repeats both until its end. */
export async function rollThrough(
  { replacements }: FaultFleet,
  { durationMs, signal }: { readonly durationMs: number; readonly signal: AbortSignal },
): Promise<RollingResult> {
  const groups = groupsOf(replacements, durationMs < ONE_BY_ONE_MS ? 3 : 1);
  const begin = performance.now();
  const counts: Record<string, number> = {};
  const periods: { kind: string; begin: number; end: number }[] = [];
  /** The pauses between the steps fill the duration of a short run. */
  const pauseMs = Math.min(2_000, durationMs / (4 * groups.length));
  const pass = async (kind: "upgrade" | "downgrade"): Promise<void> => {
    for (const group of kind === "upgrade" ? groups : groups.toReversed()) {
      if (signal.aborted) return;
      const from = instant();
      await Promise.all(group.map(({ replace }) => replace(kind === "upgrade" ? "new" : "old")));
      periods.push({ kind, begin: from, end: instant() });
      counts[kind] = (counts[kind] ?? 0) + group.length;
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  };
  do {
    await pass("upgrade");
    await pass("downgrade");
  } while (!signal.aborted && performance.now() - begin < durationMs);
  return { counts, kills: [], periods };
}

/** Neighbours of different kinds, at most `size` of them: never both writers, both readers or both signing services. */
function groupsOf(all: readonly Replaceable[], size: number): Replaceable[][] {
  const groups: Replaceable[][] = [];
  const kind = ({ name }: Replaceable): string => name.replace(/-\d+$/, "");
  for (const one of all) {
    const last = groups.at(-1);
    if (last !== undefined && last.length < size && last.every((other) => kind(other) !== kind(one)))
      last.push(one);
    else groups.push([one]);
  }
  return groups;
}
