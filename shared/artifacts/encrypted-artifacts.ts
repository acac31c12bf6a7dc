/**
 * Artifacts in a folder, encrypted part by part with the tenant, the upload and the number of the part as address. Parts of a time before are read as they
 * are, and encrypted in their place when they are: the scrub reads all of them.
 */
import type { DataKeySource } from "../integrity/encryption/data-key-source.ts";
import {
  type DataKey,
  decryptBytes,
  ENCRYPTED_BYTES_MORE,
  encryptBytes,
  encryptedWith,
} from "../integrity/encryption/encrypted-bytes.ts";
import { FleetError } from "../protocol/errors.ts";
import { type ArtifactStore, otherBytes, type StoredUpload, type UploadPlace } from "./artifact-store.ts";
import type { ArtifactFolder } from "./folder.ts";

/** In the folder of the artifacts. No tenant has a dot in its name. */
export const ARTIFACT_KEY_FILE = "artifact-key.json";

export class EncryptedArtifacts implements ArtifactStore {
  readonly path: string;
  readonly #folder: ArtifactFolder;
  readonly #key: DataKeySource;

  constructor(folder: ArtifactFolder, key: DataKeySource) {
    this.path = folder.path;
    this.#folder = folder;
    this.#key = key;
  }

  async put(place: UploadPlace, part: number, bytes: Uint8Array): Promise<void> {
    const key = await this.#key();
    if (key === undefined) return this.#folder.put(place, part, bytes);
    try {
      await this.#folder.put(place, part, encryptBytes(key, bytes, addressOf(place, part)));
    } catch (error) {
      if (!(error instanceof FleetError) || error.code !== "CONFLICT") throw error;
      // The same bytes are encrypted differently each time.
      const stored = await this.get(place, part);
      if (stored === null || Buffer.compare(stored, bytes) !== 0) throw otherBytes(part);
    }
  }

  async get(place: UploadPlace, part: number): Promise<Uint8Array | null> {
    const stored = await this.#folder.get(place, part);
    const key = await this.#key();
    if (stored === null || key === undefined) return stored;
    if (isOf(key, stored)) return decryptBytes(key, stored, addressOf(place, part));
    await this.#folder.replace(place, part, encryptBytes(key, stored, addressOf(place, part)));
    return stored;
  }

  sync(place: UploadPlace): Promise<void> {
    return this.#folder.sync(place);
  }

  async size(upload: StoredUpload): Promise<number> {
    const key = await this.#key();
    if (key === undefined) return this.#folder.size(upload);
    return this.#folder.size(upload, (head) => (isOf(key, head) ? ENCRYPTED_BYTES_MORE : 0));
  }

  state(upload: StoredUpload): Promise<string> {
    return this.#folder.state(upload);
  }

  remove(upload: StoredUpload): Promise<void> {
    return this.#folder.remove(upload);
  }

  list(): AsyncIterable<StoredUpload> {
    return this.#folder.list();
  }

  removeFragments(beforeMs: number): Promise<number> {
    return this.#folder.removeFragments(beforeMs);
  }
}

/** An artifact may begin with any bytes, but not with the random id of this key by chance. */
function isOf(key: DataKey, stored: Uint8Array): boolean {
  const id = encryptedWith(stored);
  return id !== null && Buffer.compare(id, key.id) === 0;
}

/** No name has a slash. */
const addressOf = ({ tenant, upload }: UploadPlace, part: number): Buffer =>
  Buffer.from(`fleet/artifacts/v1/${tenant}/${upload}/${part}`);
