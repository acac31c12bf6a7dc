/**
 * Loads FoundationDB's client library at the first use: an installation with another engine must start
 * without it. Every problem of the installation becomes one error with a hint what to install.
 */
import { isMainThread } from "node:worker_threads";
import type { Database, Transaction } from "foundationdb";
import type { Clock } from "../../runtime/clock.ts";
import { type Bytes, StoreError } from "../store.ts";
import { storeErrorOf } from "./errors.ts";
import { endNetworkThread } from "./results.ts";

export type Client = typeof import("foundationdb");

/** Shared by the parts of the driver. */
export interface Connection {
  readonly client: Client;
  readonly database: Database;
  /** Measures the age of transactions. */
  readonly clock: Clock;
}

/** The newest version that npm `foundationdb` 2.0.1 accepts; every 7.2 and later client library serves it. */
export const API_VERSION = 720;

/** The addon would silently cut off a longer path. */
const PATH_BYTES_MAX = 1_023;

const INSTALL = [
  "install the FoundationDB client library libfdb_c 7.3 (package foundationdb-clients, glibc only) where the loader finds it",
  "then install the npm package foundationdb: npm install foundationdb@2.0.1",
];

/**
 * The client library, ready for `open`. Safe to call again.
 * @throws StoreError `unavailable` when the library or the npm package is missing or too old;
 *   `details.install` has the instructions. `invalid` in a worker thread.
 */
export async function loadClient(): Promise<Client> {
  // The addon keeps its handles in process-wide variables: a worker loads it without an error and overwrites
  // them.
  if (!isMainThread) throw new StoreError("invalid", "FoundationDB can be used on the main thread only");
  try {
    const client = await import("foundationdb");
    client.setAPIVersion(API_VERSION);
    return client;
  } catch (cause) {
    throw new StoreError("unavailable", "the FoundationDB client library cannot be used", {
      details: { install: INSTALL, reason: reasonOf(cause), api_version: API_VERSION },
      cause,
    });
  }
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const code = "code" in cause ? cause.code : undefined;
  return code === undefined ? cause.message : `${code}: ${cause.message}`;
}

/** Does not connect: a wrong cluster file or an absent cluster shows at the first operation. */
export function openDatabase(client: Client, clusterFile: string | undefined): Database {
  const bytes = clusterFile === undefined ? 0 : Buffer.byteLength(clusterFile);
  if (bytes > PATH_BYTES_MAX) {
    throw new StoreError("invalid", "path of the cluster file is too long", {
      details: { actual: bytes, max: PATH_BYTES_MAX },
    });
  }
  const listeners = process.listeners("exit");
  try {
    return client.open(clusterFile);
  } catch (error) {
    throw storeErrorOf(error, "before_commit");
  } finally {
    stopSafelyAtExit(client, listeners);
  }
}

/** In place of the package's own stop at exit, which can hang. */
function stopSafelyAtExit(client: Client, before: readonly NodeJS.ExitListener[]): void {
  const added = process.listeners("exit").find((listener) => !before.includes(listener));
  if (added === undefined) return; // the package listens once
  process.removeListener("exit", added);
  process.once("exit", () => endNetworkThread(() => client.stopNetworkSync()));
}

export interface EngineOptions {
  /** The client library's own timeout, in milliseconds. */
  readonly timeoutMs: number;
  readonly priority: "default" | "batch";
}

/**
 * Options are set on each transaction: the engine keeps only some of them over a retry, and none for a new
 * transaction.
 */
export function newTransaction({ client, database }: Connection, options: EngineOptions): Transaction {
  const native = database.rawCreateTransaction();
  for (const [code, value] of optionsOf(client.TransactionOptionCode, options)) native.setOption(code, value);
  return native;
}

/** The options as pairs of code and value. */
export function optionsOf(
  codes: Client["TransactionOptionCode"],
  options: EngineOptions,
): [code: number, value: number | null][] {
  // Zero would switch the timeout off, and with it the only thing that ends a wait for an absent cluster.
  const list: [number, number | null][] = [[codes.Timeout, Math.max(1, Math.ceil(options.timeoutMs))]];
  if (options.priority === "batch") list.push([codes.PriorityBatch, null]);
  return list;
}

/** The addon takes Buffers only. It copies each one before it returns, so a view is enough. */
export function bufferOf(bytes: Bytes): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
