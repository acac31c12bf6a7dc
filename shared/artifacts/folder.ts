/**
 * Artifacts in a folder: `<tenant>/<upload>/<part>`. Each name is a checked token, and nothing follows a symbolic link. A part is
 * written beside its place and linked into it, so it is complete or absent, and never replaced.
 */
import { randomUUID } from "node:crypto";
import { link, lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { FleetError, invalid } from "../protocol/errors.ts";
import { isCheckpointId, isToken } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { ArtifactStore, UploadPlace } from "./artifact-store.ts";
import {
  ensureFolder,
  errorCode,
  isPlainFolder,
  readSmallFile,
  syncNames,
  writeNewFile,
} from "./plain-file.ts";

const PART = /^(?:0|[1-9]\d{0,5})$/;

export class ArtifactFolder implements ArtifactStore {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async put(place: UploadPlace, part: number, bytes: Uint8Array): Promise<void> {
    for (const folder of [this.path, this.#tenant(place), this.#upload(place)]) await ensureFolder(folder);
    const own = join(this.#upload(place), String(part));
    const draft = join(this.#upload(place), `.${randomUUID()}`);
    try {
      await writeNewFile(draft, bytes);
      await link(draft, own);
    } catch (error) {
      if (errorCode(error) !== "EEXIST") throw error;
      const stored = await this.get(place, part);
      if (stored === null || Buffer.compare(stored, bytes) !== 0) {
        throw new FleetError("CONFLICT", "the upload has other bytes in this part", { details: { part } });
      }
    } finally {
      await rm(draft, { force: true });
    }
  }

  async get(place: UploadPlace, part: number): Promise<Uint8Array | null> {
    if (!(await this.#isThere(place))) return null;
    return readSmallFile(join(this.#upload(place), String(part)), LIMITS.artifact_part_bytes);
  }

  async sync(place: UploadPlace): Promise<void> {
    for (const folder of [this.#upload(place), this.#tenant(place), this.path]) {
      if (await isPlainFolder(folder)) await syncNames(folder);
    }
  }

  async size(place: UploadPlace): Promise<number> {
    if (!(await this.#isThere(place))) return 0;
    let bytes = 0;
    for (const name of await readdir(this.#upload(place))) {
      if (!PART.test(name)) continue;
      const stat = await lstat(join(this.#upload(place), name)).catch(() => null);
      if (stat?.isFile()) bytes += stat.size;
    }
    return bytes;
  }

  async remove(place: UploadPlace): Promise<void> {
    if (!(await isPlainFolder(this.#tenant(place)))) return;
    // Of a link, the link alone is removed.
    await rm(this.#upload(place), { recursive: true, force: true });
  }

  async *list(): AsyncGenerator<UploadPlace> {
    for (const tenant of await namesIn(this.path)) {
      if (!isToken(tenant)) continue;
      for (const upload of await namesIn(join(this.path, tenant))) {
        if (isCheckpointId(upload)) yield { tenant, upload };
      }
    }
  }

  async #isThere(place: UploadPlace): Promise<boolean> {
    return (await isPlainFolder(this.#tenant(place))) && (await isPlainFolder(this.#upload(place)));
  }

  #tenant({ tenant }: UploadPlace): string {
    if (!isToken(tenant)) throw invalid("tenant", "a name of a tenant", tenant);
    return join(this.path, tenant);
  }

  #upload(place: UploadPlace): string {
    if (!isCheckpointId(place.upload)) throw invalid("upload_id", "a UUIDv7 in lower case", place.upload);
    return join(this.#tenant(place), place.upload);
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return (await isPlainFolder(folder)) ? (await readdir(folder)).sort() : [];
}
