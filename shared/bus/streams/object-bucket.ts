/**
 * A bucket of JetStream's Object Store, in the format of the client library, so that its tools can read it. An object is one message with
 * its bytes, and one under its name with its hash. The second is written last: without it there is no object, and a crash in between
 * leaves a fragment. Reads ask the leader of the stream for the name, because a follower may not know it yet.
 */
import { createHash } from "node:crypto";
import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
} from "@nats-io/jetstream";
import type { ObjectInfo, ObjectStore } from "@nats-io/obj";
import { LIMITS } from "../../protocol/limits.ts";
import { bucketOf } from "../../protocol/object-bucket.ts";
import type { ObjectBucket } from "../bus.ts";
import { busError, streamError } from "../bus-errors.ts";

interface BucketAccess {
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
}

const READS_AT_ONCE = 32;

export function objectBucket(access: () => Promise<BucketAccess>, name: string): ObjectBucket {
  const bucket = new NatsObjectBucket(access, name);
  const safely = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof JetStreamApiError)) throw busError(error, { bucket: name });
      throw streamError({ err_code: error.code, description: error.message }, { bucket: name });
    }
  };
  return {
    name,
    put: (object, bytes) => safely(() => bucket.put(object, bytes)),
    get: (object) => safely(() => bucket.get(object)),
    size: (object) => safely(async () => (await bucket.info(object))?.size ?? null),
    remove: (object) => safely(() => bucket.remove(object)),
    names: () => safely(async () => (await bucket.contents()).names),
    removeFragments: (beforeMs) => safely(() => bucket.removeFragments(beforeMs)),
  };
}

class NatsObjectBucket {
  readonly #access: () => Promise<BucketAccess>;
  readonly #bucket: ReturnType<typeof bucketOf>;
  #store: Promise<ObjectStore> | undefined;

  constructor(access: () => Promise<BucketAccess>, name: string) {
    this.#access = access;
    this.#bucket = bucketOf(name);
  }

  async put(name: string, bytes: Uint8Array): Promise<boolean> {
    for (;;) {
      const known = await this.info(name);
      if (known !== null) {
        const stored = await this.#read(known);
        if (stored !== null) return Buffer.compare(stored, bytes) === 0;
      }
      if (await this.#create(name, bytes, known?.revision ?? 0)) return true;
      // Another writer of this name was faster.
    }
  }

  async get(name: string): Promise<Uint8Array | null> {
    const info = await this.info(name);
    return info === null ? null : this.#read(info);
  }

  async info(name: string): Promise<ObjectInfo | null> {
    const info = await (await this.#open()).info(name);
    return info === null || info.deleted ? null : info;
  }

  /** The name goes first, so that no reader finds an object without bytes. */
  async remove(name: string): Promise<void> {
    const info = await this.info(name);
    if (info === null) return;
    await this.#purge(this.#bucket.record(name));
    await this.#purge(this.#bucket.content(info.nuid));
  }

  async contents(): Promise<{ names: string[]; ids: string[] }> {
    const { manager } = await this.#access();
    const { stream, everyContent, everyRecord } = this.#bucket;
    const { state } = await manager.streams.info(stream, { subjects_filter: ">" });
    const [names, ids]: [string[], string[]] = [[], []];
    for (const subject of Object.keys(state.subjects ?? {})) {
      const last = subject.slice(subject.lastIndexOf(".") + 1);
      if (subject.startsWith(everyRecord.slice(0, -1))) names.push(Buffer.from(last, "base64").toString());
      else if (subject.startsWith(everyContent.slice(0, -1))) ids.push(last);
    }
    return { names: names.sort(), ids };
  }

  /** While an object without bytes hides a fragment, the fragment stays. */
  async removeFragments(beforeMs: number): Promise<number> {
    const { names, ids } = await this.contents();
    if (ids.length <= names.length) return 0;
    const used = new Set<string>();
    for (let at = 0; at < names.length; at += READS_AT_ONCE) {
      const infos = await Promise.all(names.slice(at, at + READS_AT_ONCE).map((name) => this.info(name)));
      for (const info of infos) if (info !== null) used.add(info.nuid);
    }
    const { manager } = await this.#access();
    let removed = 0;
    for (const id of ids) {
      if (used.has(id)) continue;
      const subject = this.#bucket.content(id);
      const fragment = await manager.streams.getMessage(this.#bucket.stream, { last_by_subj: subject });
      if (fragment === null || fragment.time.getTime() >= beforeMs) continue;
      await this.#purge(subject);
      removed += 1;
    }
    return removed;
  }

  /** False: the record of this name is another one than that of `revision`. */
  async #create(name: string, bytes: Uint8Array, revision: number): Promise<boolean> {
    const store = await this.#open();
    const content = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes);
        controller.close();
      },
    });
    try {
      const options = { max_chunk_size: LIMITS.artifact_part_bytes };
      await store.put({ name, options }, content, { previousRevision: revision });
      return true;
    } catch (error) {
      if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamWrongLastSequence)
        return false;
      throw error;
    }
  }

  async #read({ nuid, size, chunks, digest }: ObjectInfo): Promise<Uint8Array | null> {
    if (size === 0) return new Uint8Array(0);
    // Another program wrote it: every object of this one is one message.
    if (chunks !== 1) return null;
    const { manager } = await this.#access();
    const { stream, content } = this.#bucket;
    const query = { last_by_subj: content(nuid) };
    const message =
      (await manager.direct.getMessage(stream, query)) ?? (await manager.streams.getMessage(stream, query));
    if (message === null || message.data.length !== size) return null;
    const hash = createHash("sha256").update(message.data).digest("base64url");
    return digest.replace(/=+$/, "") === `SHA-256=${hash}` ? message.data : null;
  }

  async #purge(filter: string): Promise<void> {
    const { manager } = await this.#access();
    await manager.streams.purge(this.#bucket.stream, { filter });
  }

  #open(): Promise<ObjectStore> {
    const open = async (): Promise<ObjectStore> => {
      // Only services with a bucket load the library: clients start faster without it.
      const { Objm } = await import("@nats-io/obj");
      return new Objm((await this.#access()).client).open(this.#bucket.name, false);
    };
    this.#store ??= open().catch((error: unknown) => {
      this.#store = undefined;
      throw error;
    });
    return this.#store;
  }
}
