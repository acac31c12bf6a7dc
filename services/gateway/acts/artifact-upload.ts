/** Stores the body of a request as an artifact, part by part, so that the gateway never has the whole of it. */
import { uuidv7 } from "uuidv7";
import { partSize } from "../../../shared/protocol/artifacts.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { digestTag } from "../http/entity-tag.ts";
import type { ActAnswer, ActContext } from "./act-context.ts";

/** For one part, over all its attempts. */
const PART_MS = 20_000;
const changes = { changes: true, deadlineMs: PART_MS } as const;

export async function uploadArtifact({ fleet, headers, url, content }: ActContext): Promise<ActAnswer> {
  const sha256 = String(url.sha256);
  const size = sizeOf(headers.get("content-length"));
  const upload_id = uuidv7();
  const { stored } = await fleet.ask("artifact_begin", { upload_id, sha256, size }, changes);
  if (stored) {
    await readToEnd(content);
  } else {
    let part = 0;
    for await (const bytes of partsIn(content, size)) {
      await fleet.ask("artifact_part", { upload_id, part, bytes: bytes.toString("base64") }, changes);
      part += 1;
    }
    for (let state = "verifying"; state !== "stored"; )
      ({ state } = await fleet.ask("artifact_commit", { upload_id, sha256 }, changes));
  }
  const { artifact } = await fleet.ask("artifact", { sha256 });
  const location = `/api/v1/artifacts/${sha256}`;
  return { status: stored ? 200 : 201, body: artifact, headers: { etag: digestTag(sha256), location } };
}

/** A client that still sends when the answer comes may lose it, because the server ends such a connection after half a second. */
async function readToEnd(content: ReadableStream<Uint8Array> | null): Promise<void> {
  try {
    for await (const _ of content ?? []);
  } catch {
    // The client is gone. Its artifact is stored.
  }
}

function sizeOf(length: string | null): number {
  const size = /^\d{1,15}$/.test(length ?? "") ? Number(length) : Number.NaN;
  if (Number.isNaN(size)) throw invalid("Content-Length", "the size of the artifact", length);
  if (size <= LIMITS.artifact_request_bytes_max) return size;
  throw new FleetError("TOO_LARGE", "the artifact is too large for one request; upload it in parts", {
    fields: [
      {
        path: "Content-Length",
        expected: `at most ${LIMITS.artifact_request_bytes_max}`,
        got: String(size),
      },
    ],
  });
}

/** Throws INVALID if the body ends before `size` bytes. */
async function* partsIn(
  content: ReadableStream<Uint8Array> | null,
  size: number,
): AsyncGenerator<Buffer, void> {
  let part = 0;
  let chunks: Uint8Array[] = [];
  let filled = 0;
  let received = 0;
  try {
    for await (const chunk of content ?? []) {
      received += chunk.length;
      for (let rest = chunk; rest.length > 0; ) {
        const taken = rest.subarray(0, partSize(size, part) - filled);
        if (taken.length === 0) throw incomplete(size, received);
        chunks.push(taken);
        filled += taken.length;
        rest = rest.subarray(taken.length);
        if (filled < partSize(size, part)) continue;
        yield Buffer.concat(chunks);
        [part, chunks, filled] = [part + 1, [], 0];
      }
    }
  } catch (error) {
    throw error instanceof FleetError ? error : incomplete(size, received);
  }
  if (received !== size) throw incomplete(size, received);
}

function incomplete(size: number, received: number): FleetError {
  return invalid("", `a body of ${size} bytes`, `${received} bytes`);
}
