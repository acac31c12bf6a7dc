/** The comparison of a workspace with its record in a checkpoint. The workspace is never changed. */
import type { Checkpoint } from "./checkpoint.ts";

/** The record of a workspace in a checkpoint: `recovery.workspace`. */
export type Workspace = NonNullable<Checkpoint["recovery"]["workspace"]>;

/**
 * `drift`: look before you continue. `conflict`: recorded work is missing, or other work is in its place.
 * From harmless to harmful.
 */
export const WORKSPACE_GRADES = ["ok", "drift", "conflict"] as const;
export type WorkspaceGrade = (typeof WORKSPACE_GRADES)[number];

interface Rule {
  readonly grade: WorkspaceGrade;
  readonly text: string;
}

/**
 * The rules: each possible finding with its grade and its words for the next agent. Work that others added
 * since is drift. Missing work of the last agent, or a missing base of that work, is conflict.
 */
export const WORKSPACE_FINDINGS = {
  repository_missing: { grade: "conflict", text: "a repository was recorded, but there is none here" },
  repository_differs: { grade: "conflict", text: "this is another repository" },
  repository_renamed: { grade: "drift", text: "the repository has another address, but the recorded commit" },
  branch_differs: { grade: "conflict", text: "another branch is checked out, at another commit" },
  branch_renamed: { grade: "drift", text: "another branch is checked out, at the recorded commit" },
  head_advanced: { grade: "drift", text: "HEAD has moved on from the recorded commit" },
  head_behind: { grade: "conflict", text: "HEAD is behind the recorded commit" },
  head_diverged: { grade: "conflict", text: "HEAD does not have the recorded commit in its history" },
  head_unknown: { grade: "conflict", text: "the recorded commit is not in this repository" },
  operation_unfinished: { grade: "conflict", text: "an operation of git is unfinished" },
  file_missing: { grade: "conflict", text: "the file is not here" },
  file_discarded: { grade: "conflict", text: "uncommitted work on the file is missing" },
  file_changed: { grade: "drift", text: "the file has changed" },
  file_touched: {
    grade: "drift",
    text: "the file was written to since then, and no hash of it was recorded",
  },
  file_dirty: { grade: "drift", text: "the file has uncommitted changes that were not recorded" },
  file_outside: { grade: "drift", text: "the path leads out of the workspace and was not opened" },
  file_unread: { grade: "drift", text: "the file could not be compared" },
  git_unavailable: { grade: "drift", text: "git gave no answer, so the repository was not compared" },
  too_many: { grade: "drift", text: "only a part was compared, because there is too much" },
} as const satisfies Record<string, Rule>;
export type WorkspaceFindingKind = keyof typeof WORKSPACE_FINDINGS;

export interface WorkspaceFinding {
  readonly kind: WorkspaceFindingKind;
  readonly grade: WorkspaceGrade;
  readonly path?: string;
  readonly recorded?: string;
  readonly found?: string;
}

export interface WorkspaceDrift {
  /** The worst grade of the findings; `ok` without findings. */
  readonly grade: WorkspaceGrade;
  /** The findings, worst first. */
  readonly findings: readonly WorkspaceFinding[];
}
