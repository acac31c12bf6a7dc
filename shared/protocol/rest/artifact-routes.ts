/** The operations of artifacts. Small ones travel in one request, and large ones in parts, as on the bus. */
import { changeRoute, type RestRoute, readRoute } from "./route.ts";

export const ARTIFACTS: readonly RestRoute[] = [
  readRoute("listArtifacts", "/artifacts", "artifacts", "List artifacts by their hashes.", "artifacts"),
  readRoute(
    "getArtifact",
    "/artifacts/{sha256}",
    "artifacts",
    "Get an artifact: its size, and the checkpoints that reference it.",
    "artifact",
    "artifact",
  ),
  changeRoute(
    "downloadArtifact",
    "/artifacts/{sha256}/content",
    "artifacts",
    "Get its bytes, or one range of them. The answer to damage ends before its last byte.",
    { kind: "artifact_content" },
    "GET",
  ),
  changeRoute(
    "uploadArtifact",
    "/artifacts/{sha256}",
    "artifacts",
    "Store the body under its hash, with a `Content-Length`. May be repeated, and repairs lost bytes.",
    { kind: "artifact_upload" },
    "PUT",
  ),
  changeRoute(
    "beginUpload",
    "/artifacts/uploads",
    "artifacts",
    "Begin an upload in parts, under an `upload_id` of your own; `stored`: the bytes are there already.",
    { kind: "query", op: "artifact_begin" },
  ),
  changeRoute(
    "uploadPart",
    "/artifacts/uploads/{upload_id}/parts/{part}",
    "artifacts",
    "Store one part of an upload.",
    { kind: "query", op: "artifact_part" },
  ),
  changeRoute(
    "commitUpload",
    "/artifacts/uploads/{upload_id}/commit",
    "artifacts",
    "Verify an upload and make it the artifact. Repeat it until the state is `stored`.",
    { kind: "query", op: "artifact_commit" },
  ),
  changeRoute(
    "listArtifactsOfCheckpoint",
    "/checkpoints/{checkpoint_id}/artifacts",
    "artifacts",
    "The references of a checkpoint to artifacts.",
    { kind: "checkpoint_artifacts" },
    "GET",
  ),
];
