// The artifacts of an export file, uploaded before the versions that reference them.

import { partsOf } from "../../../../shared/protocol/artifacts.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import type { ReadablePath } from "../../../../shared/transfer/encryption/encrypted-export.ts";
import { ExportFault, parseExportLine } from "../../../../shared/transfer/export-line.ts";
import { type ArtifactPlace, refusingFaults, type VerifiedFile } from "./exported-tasks.ts";
import { fileLines } from "./line-reader.ts";

/** The artifacts that the tasks reference, and neither the file nor the fleet has. */
export async function missingArtifacts(
  client: FleetClient,
  { references, artifacts }: VerifiedFile,
  tasks: readonly string[],
): Promise<string[]> {
  const missing: string[] = [];
  for (const sha256 of referencedBy(references, tasks)) {
    if (!artifacts.has(sha256) && (await client.artifacts.stat(sha256)) === null) missing.push(sha256);
  }
  return missing;
}

/** Stores those that the file has. One that the fleet has stays for the grace time too. Returns their number. */
export async function uploadArtifacts(
  client: FleetClient,
  source: ReadablePath,
  { references, artifacts }: VerifiedFile,
  tasks: readonly string[],
  onArtifact: (sha256: string) => void,
): Promise<number> {
  let count = 0;
  for (const sha256 of referencedBy(references, tasks)) {
    const place = artifacts.get(sha256);
    if (place === undefined) continue;
    onArtifact(sha256);
    const stored = await client.artifacts.put(partsAt(source, place), { name: sha256 });
    if (stored.sha256 !== sha256)
      throw new FleetError("CORRUPT", "the file was changed during the import", {
        details: { file: source.path },
      });
    count += 1;
  }
  return count;
}

const referencedBy = (
  references: VerifiedFile["references"],
  tasks: readonly string[],
): ReadonlySet<string> => new Set(tasks.flatMap((task) => [...(references.get(task)?.keys() ?? [])]));

async function* partsAt(
  { path, open }: ReadablePath,
  { size, start }: ArtifactPlace,
): AsyncGenerator<Uint8Array> {
  if (size === 0) return;
  const file = await open();
  try {
    let part = 0;
    for await (const { bytes } of fileLines(file, () => {}, start)) {
      const line = await refusingFaults(path, async () => {
        const one = parseExportLine(bytes, part + 1);
        if (one.kind === "artifact_part" && one.part === part) return one;
        throw new ExportFault(part + 1, "the file was changed during the import");
      });
      yield Buffer.from(line.bytes, "base64");
      part += 1;
      if (part === partsOf(size)) return;
    }
  } finally {
    await file.close();
  }
}
