/** One upload: its beginning, its parts, a few at a time, and its end. Each request may be repeated. */
import type { FileHandle } from "node:fs/promises";
import { uuidv7 } from "uuidv7";
import { type ArtifactReference, partSize, partsOf } from "../../protocol/artifacts.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QuerySender } from "../request/query-sender.ts";
import type { CallOptions } from "../request/request.ts";
import { bytesAt } from "./source-file.ts";

const PARTS_AT_ONCE = 3;

export async function upload(
  queries: QuerySender,
  file: FileHandle,
  { sha256, size }: Pick<ArtifactReference, "sha256" | "size">,
  {
    deadlineMs,
    signal,
    onProgress = () => {},
  }: CallOptions & { readonly onProgress?: ((stored: number, size: number) => void) | undefined },
): Promise<void> {
  const uploadId = uuidv7();
  const call = { deadlineMs, signal };
  const { stored } = await queries.send("artifact_begin", { ...call, uploadId, sha256, size });
  if (stored) return onProgress(size, size);
  let next = 0;
  let done = 0;
  const sendParts = async (): Promise<void> => {
    while (next < partsOf(size)) {
      const part = next;
      next += 1;
      const content = await bytesAt(file, part * LIMITS.artifact_part_bytes);
      if (content.length !== partSize(size, part)) throw changed();
      const bytes = Buffer.from(content).toString("base64");
      await queries.send("artifact_part", { ...call, uploadId, part, bytes });
      done += content.length;
      onProgress(done, size);
    }
  };
  const senders = await Promise.allSettled(
    Array.from({ length: PARTS_AT_ONCE }, () =>
      sendParts().catch((error: unknown) => {
        next = Number.POSITIVE_INFINITY;
        throw error;
      }),
    ),
  );
  for (const sender of senders) if (sender.status === "rejected") throw sender.reason;
  for (let state = "verifying"; state !== "stored"; ) {
    ({ state } = await queries.send("artifact_commit", { ...call, uploadId, sha256 }));
  }
}

function changed(): FleetError {
  return new FleetError("CONFLICT", "the file changed while it was uploaded");
}
