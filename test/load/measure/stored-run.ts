// One run of the benchmark as JSON: what `--json` writes, and what the report is made from.

import { execFileSync } from "node:child_process";
import { projectRoot } from "../../harness/project-root.ts";
import type { Options, StoreName } from "../options.ts";
import type { GroupFailure } from "./group-runs.ts";
import type { Machine } from "./machine.ts";
import type { MeasuredGroup } from "./table.ts";

export interface StoredRun {
  readonly run: RunOrigin;
  readonly machine: Machine;
  readonly groups: readonly MeasuredGroup[];
  readonly failures: readonly GroupFailure[];
}

/** The tree that is measured. */
export interface MeasuredTree {
  /** Null: the tree has no history. */
  readonly commit: string | null;
  /** Whether files differed from that commit. */
  readonly changed: boolean;
}

interface RunOrigin extends MeasuredTree {
  /** When the run began. */
  readonly at: string;
  readonly stores: readonly StoreName[];
  readonly quick: boolean;
}

export const originOf = ({ stores, quick }: Options, now: Date): RunOrigin => ({
  ...{ at: now.toISOString(), ...measuredTree() },
  ...{ stores, quick },
});

export function measuredTree(): MeasuredTree {
  const commit = git(["rev-parse", "--short=12", "HEAD"]);
  const changed = commit !== null && git(["status", "--porcelain", "--untracked-files=no"]) !== "";
  return { commit, changed };
}

function git(args: readonly string[]): string | null {
  try {
    return execFileSync("git", args, {
      cwd: projectRoot,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return null;
  }
}
