/**
 * Artifacts in a folder: `<tenant>/<upload>/<part>`. Each name is a checked token, and nothing follows a symbolic link. A part is
 * written beside its place and linked into it, so it is complete or absent, and never replaced.
 */
import { randomUUID } from "node:crypto";
import { link, lstat, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { ENCRYPTED_BYTES_MORE } from "../integrity/encryption/encrypted-bytes.ts";
import { isCheckpointId, isToken } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  type ArtifactStore,
  otherBytes,
  requirePlace,
  type StoredUpload,
  type UploadPlace,
} from "./artifact-store.ts";
import {
  ensureFolder,
  errorCode,
  isPlainFolder,
  readHead,
  readSmallFile,
  syncNames,
  writeNewFile,
} from "./plain-file.ts";

const PART = /^(?:0|[1-9]\d{0,5})$/;
/** A part may be encrypted. */
const STORED_PART_BYTES_MAX = LIMITS.artifact_part_bytes + ENCRYPTED_BYTES_MORE;
/** The parts of an upload whose files are looked at together. */
const AT_ONCE = 16;
/** Before the name of a part that is being written. */
const DRAFT = ".";

export class ArtifactFolder implements ArtifactStore {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async put(place: UploadPlace, part: number, bytes: Uint8Array): Promise<void> {
    for (const folder of [this.path, this.#tenant(place), this.#upload(place)]) await ensureFolder(folder);
    const own = join(this.#upload(place), String(part));
    const draft = join(this.#upload(place), `${DRAFT}${randomUUID()}`);
    try {
      await writeNewFile(draft, bytes);
      await link(draft, own);
    } catch (error) {
      if (errorCode(error) !== "EEXIST") throw error;
      const stored = await this.get(place, part);
      if (stored === null || Buffer.compare(stored, bytes) !== 0) throw otherBytes(part);
    } finally {
      await rm(draft, { force: true });
    }
  }

  async get(place: UploadPlace, part: number): Promise<Uint8Array | null> {
    if (!(await this.#isThere(place))) return null;
    return readSmallFile(join(this.#upload(place), String(part)), STORED_PART_BYTES_MAX);
  }

  /** Gives a stored part other bytes. They are whole or not there after a kill. A part that was removed meanwhile, or a full disk, leaves it as it is. */
  async replace(place: UploadPlace, part: number, bytes: Uint8Array): Promise<void> {
    const draft = join(this.#upload(place), `${DRAFT}${randomUUID()}`);
    try {
      await writeNewFile(draft, bytes);
      await rename(draft, join(this.#upload(place), String(part)));
    } catch (error) {
      if (errorCode(error) === undefined) throw error;
    } finally {
      await rm(draft, { force: true });
    }
  }

  async sync(place: UploadPlace): Promise<void> {
    for (const folder of [this.#upload(place), this.#tenant(place), this.path]) {
      if (await isPlainFolder(folder)) await syncNames(folder);
    }
  }

  /** `surplus`: by how much a stored part that begins with these bytes is longer than the part itself. */
  async size(place: UploadPlace, surplus?: (head: Uint8Array) => number): Promise<number> {
    if (!(await this.#isThere(place))) return 0;
    let bytes = 0;
    for (const name of await readdir(this.#upload(place))) {
      if (!PART.test(name)) continue;
      const path = join(this.#upload(place), name);
      const stat = await lstat(path).catch(() => null);
      if (!stat?.isFile()) continue;
      bytes += stat.size;
      if (surplus !== undefined) bytes -= surplus(await readHead(path, ENCRYPTED_BYTES_MORE));
    }
    return bytes;
  }

  /** The time of a change cannot be set, unlike that of the content. */
  async state({ parts, ...place }: StoredUpload): Promise<string> {
    const folder = this.#upload(place);
    const files: string[] = [];
    for (let from = 0; from < parts; from += AT_ONCE) {
      const looks = Array.from({ length: Math.min(AT_ONCE, parts - from) }, (_, i) =>
        fileState(join(folder, String(from + i))),
      );
      files.push(...(await Promise.all(looks)));
    }
    return files.join(" ");
  }

  async remove(place: UploadPlace): Promise<void> {
    if (!(await isPlainFolder(this.#tenant(place)))) return;
    // Of a link, the link alone is removed.
    await rm(this.#upload(place), { recursive: true, force: true });
  }

  async *list(): AsyncGenerator<StoredUpload> {
    for (const tenant of await namesIn(this.path)) {
      if (!isToken(tenant)) continue;
      for (const upload of await namesIn(join(this.path, tenant))) {
        if (!isCheckpointId(upload)) continue;
        const parts = (await namesIn(join(this.path, tenant, upload))).filter((name) => PART.test(name));
        yield { tenant, upload, parts: Math.max(0, ...parts.map((part) => Number(part) + 1)) };
      }
    }
  }

  async removeFragments(beforeMs: number): Promise<number> {
    let removed = 0;
    for await (const place of this.list()) {
      const folder = this.#upload(place);
      for (const name of await namesIn(folder)) {
        const path = join(folder, name);
        if (!name.startsWith(DRAFT)) continue;
        const stat = await lstat(path).catch(() => null);
        if (stat === null || stat.mtimeMs >= beforeMs) continue;
        await rm(path, { force: true });
        removed += 1;
      }
    }
    return removed;
  }

  async #isThere(place: UploadPlace): Promise<boolean> {
    return (await isPlainFolder(this.#tenant(place))) && (await isPlainFolder(this.#upload(place)));
  }

  #tenant(place: UploadPlace): string {
    requirePlace(place);
    return join(this.path, place.tenant);
  }

  #upload(place: UploadPlace): string {
    return join(this.#tenant(place), place.upload);
  }
}

/** Empty: there is no such file. */
async function fileState(path: string): Promise<string> {
  const stat = await lstat(path, { bigint: true }).catch(() => null);
  return stat === null ? "" : [stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(":");
}

async function namesIn(folder: string): Promise<string[]> {
  return (await isPlainFolder(folder)) ? (await readdir(folder)).sort() : [];
}
