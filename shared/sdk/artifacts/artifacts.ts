/** `fleet.artifacts`: files beside the checkpoints, by the SHA-256 of their bytes. No more than a few parts are in memory at a time. */
import { createHash, randomUUID } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename } from "node:path";
import { Readable } from "node:stream";
import {
  type Artifact,
  type ArtifactPage,
  type ArtifactReference,
  artifactReferenceSchema,
  partSize,
  partsOf,
} from "../../protocol/artifacts.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import { validate } from "../../protocol/validation.ts";
import type { Camel } from "../case-convert.ts";
import type { QuerySender } from "../request/query-sender.ts";
import type { CallOptions } from "../request/request.ts";
import { copyToFile, hashOfFile } from "./source-file.ts";
import { upload } from "./upload.ts";

/** The path of a file, or its bytes in order. A stream is written to a temporary file first, because its hash must be known. */
export type ArtifactSource = string | AsyncIterable<Uint8Array>;

export interface ArtifactOptions {
  /** Default: that of the file. A stream needs one. */
  readonly name?: string | undefined;
  /** Default `application/octet-stream`. */
  readonly mediaType?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes that are stored so far, and all of them. */
  readonly onProgress?: ((stored: number, size: number) => void) | undefined;
}

/** Long, because a part is a hundred times larger than other requests. For one part, over all its attempts. */
const PART_MS = 30_000;

export class Artifacts {
  readonly #queries: QuerySender;

  constructor(queries: QuerySender) {
    this.#queries = queries;
  }

  /**
   * Stores the bytes, unless the tenant has them, and resolves with the reference for a checkpoint. Until a checkpoint references it, it
   * stays for the grace time of the fleet. May be repeated after any error. Throws TOO_LARGE over a limit.
   */
  async put(source: ArtifactSource, options: ArtifactOptions = {}): Promise<ArtifactReference> {
    const name = options.name ?? (typeof source === "string" ? basename(source) : undefined);
    if (name === undefined) throw invalid("name", "the name of the artifact");
    const temporary = typeof source === "string" ? undefined : await copyToFile(source, options.signal);
    try {
      const file = await open(temporary ?? (source as string), "r");
      try {
        return await this.#putFile(file, name, options);
      } finally {
        await file.close();
      }
    } finally {
      if (temporary !== undefined) await rm(temporary, { force: true });
    }
  }

  async #putFile(file: FileHandle, name: string, options: ArtifactOptions): Promise<ArtifactReference> {
    if (!(await file.stat()).isFile()) throw invalid("source", "a plain file");
    const { sha256, size } = await hashOfFile(file, options.signal);
    // Before the upload, so that a wrong name costs no time.
    const { mediaType: media_type } = options;
    const reference = validate(artifactReferenceSchema, { media_type, name, sha256, size });
    await upload(this.#queries, file, reference, { ...options, deadlineMs: PART_MS });
    return reference;
  }

  /** null: the tenant has no such artifact. */
  async stat(sha256: string, call: CallOptions = {}): Promise<Artifact | null> {
    return (await this.#queries.find("artifact", { ...call, sha256 }))?.artifact ?? null;
  }

  list(query: Camel<QueryInput<"artifacts">> & CallOptions = {}): Promise<ArtifactPage> {
    return this.#queries.send("artifacts", query);
  }

  /**
   * The bytes, part by part. Ends with an error unless the size and the hash are those of the artifact: CORRUPT for damage, NOT_FOUND if
   * there is none. Use nothing of it before its end, or {@link save} it.
   */
  async *read(
    sha256: string,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<Uint8Array> {
    const { artifact } = await this.#queries.send("artifact", { sha256, signal });
    const hash = createHash("sha256");
    const load = (part: number) =>
      this.#queries.send("artifact_read", { sha256, part, deadlineMs: PART_MS, signal });
    const parts = partsOf(artifact.size);
    let next = parts > 0 ? load(0) : undefined;
    for (let part = 0; next !== undefined; part += 1) {
      const bytes = Buffer.from((await next).bytes, "base64");
      if (bytes.length !== partSize(artifact.size, part)) throw damaged(sha256);
      next = part + 1 < parts ? load(part + 1) : undefined;
      // The consumer may stop here, and then no caller waits for the next part.
      next?.catch(() => {});
      hash.update(bytes);
      yield bytes;
    }
    if (hash.digest("hex") !== sha256) throw damaged(sha256);
  }

  /** {@link read} as a stream of Node. */
  stream(sha256: string, options: { readonly signal?: AbortSignal } = {}): Readable {
    return Readable.from(this.read(sha256, options), { objectMode: false });
  }

  /** Writes the bytes to a file that appears when they are verified, and replaces one that is there. Resolves with the size. */
  async save(sha256: string, path: string, options: { readonly signal?: AbortSignal } = {}): Promise<number> {
    const own = `${path}.${randomUUID()}.part`;
    let size = 0;
    try {
      const file = await open(own, "wx", 0o600);
      try {
        for await (const bytes of this.read(sha256, options)) {
          await file.writeFile(bytes);
          size += bytes.length;
        }
        await file.datasync();
      } finally {
        await file.close();
      }
      await rename(own, path);
      return size;
    } catch (error) {
      await rm(own, { force: true });
      throw error;
    }
  }

  /** Reads all bytes and compares size and hash. Resolves with the size; throws like {@link read}. */
  async verify(sha256: string, options: { readonly signal?: AbortSignal } = {}): Promise<number> {
    let size = 0;
    for await (const bytes of this.read(sha256, options)) size += bytes.length;
    return size;
  }
}

/** The list with these references, each once. */
export function withArtifacts<T extends Pick<ArtifactReference, "sha256" | "name">>(
  artifacts: readonly T[],
  added: readonly T[],
): T[] {
  const isSame = (one: T, other: T): boolean => one.sha256 === other.sha256 && one.name === other.name;
  return [...artifacts.filter((one) => !added.some((other) => isSame(one, other))), ...added];
}

function damaged(sha256: string): FleetError {
  return new FleetError("CORRUPT", "the bytes of the artifact do not match its hash", {
    details: { sha256 },
  });
}
