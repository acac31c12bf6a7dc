/** How a workspace stands beside what a checkpoint recorded of it. */

/** From harmless to harmful. `drift`: look before going on. `conflict`: recorded work is not here, or other work is. */
export const WORKSPACE_GRADES = ["ok", "drift", "conflict"] as const;
export type WorkspaceGrade = (typeof WORKSPACE_GRADES)[number];

/** Everything that can be found, in words for whoever goes on. The grades are given where they are compared. */
export const WORKSPACE_FINDINGS = {
  repository_missing: "a repository was recorded, and here is none",
  repository_differs: "this is another repository",
  repository_renamed: "the repository has another address, and the recorded commit",
  branch_differs: "another branch is checked out",
  head_advanced: "HEAD has moved on from the recorded commit",
  head_behind: "HEAD is behind the recorded commit",
  head_diverged: "the recorded commit is not in the history of HEAD",
  head_unknown: "the recorded commit is not in this repository",
  operation_unfinished: "an operation of git is unfinished",
  file_changed: "the file has changed",
  file_touched: "the file was written to since, and no hash was recorded",
  file_missing: "the file is not here",
  file_discarded: "uncommitted work on the file is gone",
  file_dirty: "the file has uncommitted changes that were not recorded",
  file_outside: "the path leads out of the workspace and was not opened",
  file_unread: "the file could not be compared",
  git_unavailable: "git could not be asked, so the repository was not compared",
  too_many: "there were more than were compared",
} as const;
export type WorkspaceFindingKind = keyof typeof WORKSPACE_FINDINGS;

export interface WorkspaceFinding {
  readonly kind: WorkspaceFindingKind;
  readonly grade: WorkspaceGrade;
  readonly path?: string;
  readonly recorded?: string;
  readonly found?: string;
}

export interface WorkspaceDrift {
  /** The worst grade of the findings; ok when there is none. */
  readonly grade: WorkspaceGrade;
  readonly findings: readonly WorkspaceFinding[];
}
