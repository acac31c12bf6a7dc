/**
 * The committing thread of the LMDB driver: one engine transaction, the engine's lock and one disk flush per batch.
 * The flush blocks this thread only; the serving thread never waits for a disk.
 *
 * It answers each {@link WorkerRequest} with one {@link WorkerAnswer}, in order.
 */
import { writeSync } from "node:fs";
import { constants } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { type BatchResult, commitSlabs, type Slab, type Writable } from "../optimistic/commit.ts";
import { keyAfter, SEQUENCE_KEY } from "../optimistic/keys.ts";
import { type Bytes, type KeyRange, StoreError } from "../store.ts";
import { type EnvironmentOptions, type LmdbEnvironment, openEnvironment, rowsOf } from "./environment.ts";
import { freeBytes, isTooFull } from "./free-space.ts";
import { processGate } from "./gate.ts";
import { OpeningLock } from "./opening-lock.ts";

export type WorkerRequest = { readonly kind: "commit"; readonly slabs: Slab[] } | { readonly kind: "close" };

export type WorkerAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "committed"; readonly result: BatchResult }
  | {
      readonly kind: "failed";
      /** False when the batch was undone, true when that is unknown. */
      readonly unknown: boolean;
      readonly details: Record<string, unknown>;
    };

/**
 * The number of keys that are collected before they are removed: a cursor must not stand in a changing tree.
 */
const CLEAR_KEYS = 1_000;
const STANDARD_ERROR = 2;

const options = workerData as EnvironmentOptions;
const gate = processGate();
const environment = await openEnvironment(options);
const lock = new OpeningLock(options.path);
const port = parentPort!;
const newest = writable(environment);

port.on("message", async (request: WorkerRequest) => {
  if (request.kind === "commit") return answer(gate.pass(() => commitLocked(request.slabs)));
  port.close();
  lock.close();
  await environment.close();
});
answer({ kind: "ready" });

function answer(message: WorkerAnswer): void {
  const moved =
    message.kind === "committed" ? [message.result.outcomes.buffer, ...message.result.buffers] : [];
  port.postMessage(message, moved);
}

function commitLocked(slabs: Slab[]): WorkerAnswer {
  // First, because a lock may need space too.
  const free = freeBytes(options.path);
  const size = slabs.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  if (isTooFull(free, size)) {
    const details = { code: "ENOSPC", engine_message: "not attempted", free_bytes: free };
    return { kind: "failed", unknown: false, details };
  }
  try {
    return lock.commit(() => commit(slabs));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { kind: "failed", unknown: false, details: { engine_message: error.message, free_bytes: free } };
  }
}

function commit(slabs: Slab[]): WorkerAnswer {
  let before: bigint | undefined;
  try {
    const result = environment.transactionSync(() => {
      before = storedSequence();
      const batch = commitSlabs(newest, slabs, before);
      if (batch.sequence !== before) newest.set(SEQUENCE_KEY, sequenceBytes(batch.sequence));
      return batch;
    });
    return { kind: "committed", result };
  } catch (error) {
    endLine();
    const { code: number, message } = error as { code?: unknown; message: string };
    const code = number === constants.errno.ENOSPC ? "ENOSPC" : number;
    const details = { code, engine_message: message, free_bytes: freeBytes(options.path) };
    return { kind: "failed", unknown: !isUndone(before), details };
  }
}

/**
 * The engine's error codes do not show whether a batch took effect (a full disk can be a plain I/O error).
 * Its state does: a failure at the very last step makes the engine refuse every later transaction.
 */
function isUndone(before: bigint | undefined): boolean {
  try {
    return environment.transactionSync(() => before === undefined || storedSequence() === before);
  } catch {
    return false;
  }
}

/** The engine's own message has no line break, and the next line of a log in the same file would begin behind it. */
function endLine(): void {
  try {
    writeSync(STANDARD_ERROR, "\n");
  } catch {
    // Closed or full; the message is lost as well.
  }
}

function storedSequence(): bigint {
  return environment.get(SEQUENCE_KEY)?.readBigUInt64BE() ?? 0n;
}

function sequenceBytes(sequence: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(sequence);
  return bytes;
}

function writable(database: LmdbEnvironment): Writable {
  const keysOf = (range: KeyRange): Buffer[] => [
    ...database.getKeys({ start: Buffer.from(range.begin), end: Buffer.from(range.end), limit: CLEAR_KEYS }),
  ];
  return {
    get: (key) => database.get(asBuffer(key)),
    rows: (range, limit) => rowsOf(database, range, { limit }),
    // Nothing is returned: the result of `put` would make the engine transaction asynchronous.
    set(key, value) {
      database.put(asBuffer(key), asBuffer(value));
    },
    clear(key) {
      database.remove(asBuffer(key));
    },
    clearRange({ begin, end }) {
      for (let from = begin; ; ) {
        const keys = keysOf({ begin: from, end });
        for (const key of keys) database.remove(key);
        if (keys.length < CLEAR_KEYS) return;
        from = keyAfter(keys.at(-1)!);
      }
    },
  };
}

function asBuffer(bytes: Bytes): Buffer {
  return bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
