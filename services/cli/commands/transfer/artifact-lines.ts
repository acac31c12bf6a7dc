// The lines of artifacts, read over the bus part by part.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { ExportLine } from "../../../../shared/protocol/export-lines.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";

/** One artifact. What the fleet cannot read is named in place of its bytes. */
export async function* artifactLines(
  client: FleetClient,
  sha256: string,
  size: number,
): AsyncGenerator<ExportLine> {
  try {
    // An artifact that is absent has no first part, and is found before its line.
    const parts = client.artifacts.read(sha256);
    let next = await parts.next();
    yield { kind: "artifact", sha256, size };
    for (let part = 0; next.done !== true; part += 1) {
      const bytes = Buffer.from(next.value).toString("base64");
      // The last part ends the artifact in the file, so the whole is verified before it.
      next = await parts.next();
      yield { kind: "artifact_part", part, bytes };
    }
  } catch (error) {
    if (!(error instanceof FleetError) || (error.code !== "CORRUPT" && error.code !== "NOT_FOUND"))
      throw error;
    yield { kind: "artifact_lost", sha256, reason: error.message };
  }
}
