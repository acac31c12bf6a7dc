/** The file from which an artifact is uploaded. */
import { createHash, randomUUID } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** Writes a stream to a private temporary file, and returns its path. Throws TOO_LARGE. */
export async function copyToFile(
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<string> {
  const path = join(tmpdir(), `fleet-artifact-${randomUUID()}`);
  try {
    const file = await open(path, "wx", 0o600);
    try {
      let size = 0;
      for await (const bytes of source) {
        signal?.throwIfAborted();
        size += bytes.length;
        requireSize(size);
        await file.writeFile(bytes);
      }
    } finally {
      await file.close();
    }
    return path;
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

/** Reads the file once. Throws TOO_LARGE. */
export async function hashOfFile(
  file: FileHandle,
  signal: AbortSignal | undefined,
): Promise<{ sha256: string; size: number }> {
  const hash = createHash("sha256");
  let size = 0;
  for (;;) {
    signal?.throwIfAborted();
    const bytes = await bytesAt(file, size);
    if (bytes.length === 0) return { sha256: hash.digest("hex"), size };
    size += bytes.length;
    requireSize(size);
    hash.update(bytes);
  }
}

/** At most one part, and less only at the end of the file. */
export async function bytesAt(file: FileHandle, position: number): Promise<Uint8Array> {
  const buffer = Buffer.allocUnsafe(LIMITS.artifact_part_bytes);
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

function requireSize(size: number): void {
  if (size <= LIMITS.artifact_bytes_max) return;
  throw new FleetError("TOO_LARGE", "the artifact is too large", {
    fields: [{ path: "size", expected: `at most ${LIMITS.artifact_bytes_max} bytes`, got: `over ${size}` }],
  });
}
