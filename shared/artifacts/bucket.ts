/**
 * Artifacts in a bucket of the bus's Object Store, one object for each part: `<fleet>/<tenant>/<upload>/<part>`. It serves readers on
 * several machines without a shared folder.
 */
import type { ObjectBucket } from "../bus/bus.ts";
import { isCheckpointId, isToken } from "../protocol/ids.ts";
import {
  type ArtifactStore,
  otherBytes,
  requirePlace,
  type StoredUpload,
  type UploadPlace,
} from "./artifact-store.ts";

const PART = /^(?:0|[1-9]\d{0,5})$/;
const AT_ONCE = 16;

export class ArtifactBucket implements ArtifactStore {
  readonly path: string;
  readonly #bucket: ObjectBucket;
  readonly #fleet: string;

  /** `fleet`: the identity of the store. Another one would find no record of these bytes and remove them. */
  constructor(bucket: ObjectBucket, fleet: string) {
    this.path = `nats:${bucket.name}/${fleet}`;
    this.#bucket = bucket;
    this.#fleet = fleet;
  }

  async put(place: UploadPlace, part: number, bytes: Uint8Array): Promise<void> {
    if (!(await this.#bucket.put(this.#name(place, part), bytes))) throw otherBytes(part);
  }

  get(place: UploadPlace, part: number): Promise<Uint8Array | null> {
    return this.#bucket.get(this.#name(place, part));
  }

  /** The bus acknowledges a part when it is durable, with its name. */
  async sync(): Promise<void> {}

  /** Always the same: a look would be a request for each part, and its size says little about its bytes. */
  async state(): Promise<string> {
    return "";
  }

  async size(upload: StoredUpload): Promise<number> {
    const sizes = await this.#ofParts(upload, (name) => this.#bucket.size(name));
    return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
  }

  async remove(upload: StoredUpload): Promise<void> {
    await this.#ofParts(upload, (name) => this.#bucket.remove(name));
  }

  async *list(): AsyncGenerator<StoredUpload> {
    const uploads = new Map<string, StoredUpload>();
    for (const name of await this.#bucket.names()) {
      const [fleet, tenant = "", upload = "", part = "", ...more] = name.split("/");
      if (fleet !== this.#fleet || more.length > 0) continue;
      if (!isToken(tenant) || !isCheckpointId(upload) || !PART.test(part)) continue;
      const key = `${tenant}/${upload}`;
      const parts = Math.max(uploads.get(key)?.parts ?? 0, Number(part) + 1);
      uploads.set(key, { tenant, upload, parts });
    }
    yield* uploads.values();
  }

  removeFragments(beforeMs: number): Promise<number> {
    return this.#bucket.removeFragments(beforeMs);
  }

  async #ofParts<T>({ parts, ...place }: StoredUpload, act: (name: string) => Promise<T>): Promise<T[]> {
    const done: T[] = [];
    for (let from = 0; from < parts; from += AT_ONCE) {
      const numbers = Array.from({ length: Math.min(AT_ONCE, parts - from) }, (_, i) => from + i);
      done.push(...(await Promise.all(numbers.map((part) => act(this.#name(place, part))))));
    }
    return done;
  }

  #name(place: UploadPlace, part: number): string {
    requirePlace(place);
    return `${this.#fleet}/${place.tenant}/${place.upload}/${part}`;
  }
}
