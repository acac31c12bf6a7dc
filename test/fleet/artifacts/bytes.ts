// Files for the tests of artifacts, and the parts of the stored ones on the disk of a fleet.

import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const MIB = 1024 * 1024;

export const newFolder = (): string => mkdtempSync(join(tmpdir(), "fleet-artifacts-"));

export const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** A file of random bytes. */
export function fileOf(folder: string, name: string, size: number): { path: string; bytes: Buffer } {
  const path = join(folder, name);
  const bytes = randomBytes(size);
  writeFileSync(path, bytes);
  return { path, bytes };
}

/** The folders of all uploads of a tenant, with their parts. */
export function uploadsOf(home: string, tenant = "default"): { folder: string; parts: string[] }[] {
  const root = join(home, "artifacts");
  return namesIn(root).flatMap((store) =>
    namesIn(join(root, store, tenant)).map((upload) => {
      const folder = join(root, store, tenant, upload);
      return { folder, parts: namesIn(folder).sort() };
    }),
  );
}

/** The files of one artifact of this size, if no other has the size. */
export function partsOfSize(home: string, size: number, tenant = "default"): string[] {
  const found = uploadsOf(home, tenant).find(
    ({ folder, parts }) => parts.reduce((sum, part) => sum + statSync(join(folder, part)).size, 0) === size,
  );
  if (found === undefined) throw new Error(`no upload has ${size} bytes`);
  return found.parts.map((part) => join(found.folder, part));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
