/**
 * A bucket of JetStream's Object Store, in the format of the client library, so that its tools can read it. An object is one message with
 * its bytes, and one under its name with its hash. The second is written last: without it there is no object, and a crash in between
 * leaves a fragment. Reads ask the leader of the stream for the name, because a follower may not know it yet.
 *
 * JetStream confirms what a client stores at any subject that the client names, also that of a record. So the first message of a name is its
 * record: the one that stores a record removes all before it, and a confirmation removes none.
 */
import { createHash } from "node:crypto";
import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  type MsgRequest,
  type StoredMsg,
} from "@nats-io/jetstream";
import type { ObjectStore } from "@nats-io/obj";
import { LIMITS } from "../../protocol/limits.ts";
import { bucketOf } from "../../protocol/object-bucket.ts";
import type { ObjectBucket } from "../bus.ts";
import { busError, streamError } from "../bus-errors.ts";

interface BucketAccess {
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
}

const READS_AT_ONCE = 32;

/** The members of a record that this bucket reads. */
interface ObjectRecord {
  readonly nuid: string;
  readonly size: number;
  readonly chunks: number;
  readonly digest: string;
}

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
    size: (object) => safely(async () => (await bucket.record(object))?.size ?? null),
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
      // Before the record is read: a record that another writer stores afterwards has a later position.
      const revision = (await this.#last(this.#bucket.record(name)))?.seq ?? 0;
      const known = revision === 0 ? null : await this.record(name);
      if (known !== null) {
        const stored = await this.#read(known);
        if (stored !== null) return Buffer.compare(stored, bytes) === 0;
      }
      if (await this.#create(name, bytes, revision)) return true;
      // Another writer of this name was faster.
    }
  }

  async get(name: string): Promise<Uint8Array | null> {
    const record = await this.record(name);
    return record === null ? null : this.#read(record);
  }

  async record(name: string): Promise<ObjectRecord | null> {
    return readRecord(await this.#first(this.#bucket.record(name)));
  }

  /** The name goes first, so that no reader finds an object without bytes. */
  async remove(name: string): Promise<void> {
    const first = await this.#first(this.#bucket.record(name));
    if (first === null) return;
    await this.#purge(this.#bucket.record(name));
    const record = readRecord(first);
    if (record !== null) await this.#purge(this.#bucket.content(record.nuid));
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
      const records = await Promise.all(names.slice(at, at + READS_AT_ONCE).map((name) => this.record(name)));
      for (const record of records) if (record !== null) used.add(record.nuid);
    }
    let removed = 0;
    for (const id of ids) {
      if (used.has(id)) continue;
      const subject = this.#bucket.content(id);
      const fragment = await this.#last(subject);
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

  async #read(record: ObjectRecord): Promise<Uint8Array | null> {
    if (record.size === 0) return new Uint8Array(0);
    // Another program wrote it: every object of this one is one message.
    if (record.chunks !== 1) return null;
    const { manager } = await this.#access();
    const { stream, content } = this.#bucket;
    const subject = content(record.nuid);
    // Any server of the stream answers the first; the last message may be a confirmation.
    const read = await manager.direct.getMessage(stream, { last_by_subj: subject });
    if (read !== null && isContent(read.data, record)) return read.data;
    const first = await this.#first(subject);
    return first !== null && isContent(first.data, record) ? first.data : null;
  }

  async #first(subject: string): Promise<StoredMsg | null> {
    const { manager } = await this.#access();
    // The server knows this form, and the library passes it on.
    const query = { seq: 1, next_by_subj: subject } as MsgRequest;
    return manager.streams.getMessage(this.#bucket.stream, query);
  }

  async #last(subject: string): Promise<StoredMsg | null> {
    const { manager } = await this.#access();
    return manager.streams.getMessage(this.#bucket.stream, { last_by_subj: subject });
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

function isContent(bytes: Uint8Array, { size, digest }: ObjectRecord): boolean {
  if (bytes.length !== size) return false;
  const hash = createHash("sha256").update(bytes).digest("base64url");
  return digest.replace(/=+$/, "") === `SHA-256=${hash}`;
}

/** null: there is no record, or the message is none. */
function readRecord(message: StoredMsg | null): ObjectRecord | null {
  if (message === null) return null;
  const { nuid, size, chunks, digest, deleted } = parsed(message);
  const isRecord = typeof nuid === "string" && typeof digest === "string";
  if (!isRecord || typeof size !== "number" || typeof chunks !== "number" || deleted === true) return null;
  return { nuid, size, chunks, digest };
}

function parsed(message: StoredMsg): Readonly<Record<string, unknown>> {
  try {
    return (message.json<Record<string, unknown> | null>() ?? {}) as Record<string, unknown>;
  } catch {
    return {};
  }
}
