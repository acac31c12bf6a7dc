/** The names of the queries for artifacts. */

/** Queries that carry and name artifacts. The first three write. */
export const ARTIFACT_OPS = [
  "artifact_begin",
  "artifact_part",
  "artifact_commit",
  "artifact",
  "artifact_read",
  "artifacts",
] as const;
