/** The limits of workspace snapshots: a part of `LIMITS`, where their relations to the others are. */
export const WORKSPACE_LIMITS = {
  /** The contents of one workspace snapshot, and the time for one answer of git. */
  workspace_dirty_count_max: 500,
  workspace_files_count_max: 200,
  /** Of a path in JSON. Longer ones are left out, so that the names in a repository cannot fill a checkpoint. */
  workspace_path_bytes_max: 500,
  workspace_file_bytes_max: 8_000_000,
  workspace_hashed_bytes_max: 64_000_000,
  workspace_git_bytes_max: 4_000_000,
  workspace_git_ms_max: 5_000,
  workspace_findings_count_max: 200,
} as const;
