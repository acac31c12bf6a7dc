/**
 * The store over FoundationDB, for more than one machine. It keeps the guarantees of the interface with the
 * engine's own means: strict serialisability, versionstamps, watches. The driver adds the guarantees that the
 * engine lacks:
 *
 * - Nothing waits for ever. Without a timeout every call to an absent cluster does, so each attempt has one,
 *   and each operation has its own timer besides.
 * - An unknown commit result is never retried silently: the caller's `onUnknown` decides.
 * - Options are set on every attempt, because the engine forgets most of them when it retries.
 *
 * The client library belongs to the main thread of a process: in a worker it destroys the main thread's
 * handles. TLS is configured with the library's own FDB_TLS_* environment variables. The cluster file must be
 * writable, because the library rewrites it when the coordinators change.
 */
import type { StoreCluster } from "../../protocol/diagnosis.ts";
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { Deadlines } from "../deadlines.ts";
import { FoundationdbAttempt } from "../foundationdb/attempt.ts";
import { type Connection, type EngineOptions, loadClient, openDatabase } from "../foundationdb/client.ts";
import { readClusterStatus } from "../foundationdb/cluster-status.ts";
import { storeErrorOf } from "../foundationdb/errors.ts";
import { KeyWatches } from "../foundationdb/watches.ts";
import { KEY_SPACE } from "../limits.ts";
import { Operation } from "../operation.ts";
import {
  type Bytes,
  type CommitResult,
  type Reader,
  type ReadOptions,
  type Store,
  StoreError,
  type StoreHealth,
  type TransactOptions,
  type Tx,
} from "../store.ts";

export interface FoundationdbOptions {
  /**
   * A path. Default: the library's own search (FDB_CLUSTER_FILE, the working directory, the system's
   * default).
   */
  readonly clusterFile?: string;
  /** The time limit of one attempt, in milliseconds. The engine itself allows five seconds. */
  readonly timeoutMs?: number;
  /** The longest pause between two attempts, in milliseconds. */
  readonly maxRetryDelayMs?: number;
  /** Measures the age of transactions. */
  readonly clock?: Clock;
}

/**
 * The engine's timeout comes so much later than ours, so that the same one always reports a passed deadline,
 * and the engine still frees its resources.
 */
const ENGINE_TIMEOUT_SLACK_MS = 100;
/** How long a closing store waits until the client library has released the cancelled work. */
const CANCEL_MS = 1_000;
/** Nothing is stored here; the tuple encoding gives this key to no record. */
const PROBE_KEY = KEY_SPACE.begin;
const PROBE_RANGE = { begin: PROBE_KEY, end: Buffer.concat([PROBE_KEY, Buffer.alloc(1)]) };

/**
 * Opens the store; does not connect. An unreachable cluster shows in `health` and at the first operation.
 * @throws StoreError `unavailable` when the client library is not installed (`details.install`), `invalid`
 *   for a cluster file path over 1,023 bytes.
 */
export async function openFoundationdb(options: FoundationdbOptions = {}): Promise<Store> {
  const client = await loadClient();
  const database = openDatabase(client, options.clusterFile);
  return new FoundationdbStore({ client, database, clock: options.clock ?? systemClock }, options);
}

class FoundationdbStore implements Store {
  readonly name = "foundationdb";
  readonly #connection: Connection;
  readonly #watches: KeyWatches;
  readonly #timeoutMs: number;
  readonly #maxRetryDelayMs: number;
  readonly #deadlines = new Deadlines();
  readonly #running = new Map<Operation, Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(connection: Connection, options: FoundationdbOptions) {
    this.#connection = connection;
    this.#watches = new KeyWatches(connection);
    this.#timeoutMs = options.timeoutMs ?? 5_000;
    this.#maxRetryDelayMs = options.maxRetryDelayMs ?? 1_000;
    connection.database.setNativeOptions({ transaction_timeout: this.#timeoutMs });
  }

  transact<T>(options: TransactOptions, body: (tx: Tx) => Promise<T>): Promise<CommitResult<T>> {
    return this.#run(options, async (attempt) => {
      const value = await body(attempt);
      return { value, stamp: await attempt.commit(), attempts: attempt.attempt };
    });
  }

  read<T>(options: ReadOptions, body: (reader: Reader) => Promise<T>): Promise<T> {
    return this.#run({ ...options, onUnknown: "safe" }, async (attempt) => {
      const value = await body(attempt.snapshot);
      await attempt.finish();
      return value;
    });
  }

  async changed(
    key: Bytes,
    lastSeen: Bytes | undefined,
    options: { signal: AbortSignal; pollMs: number },
  ): Promise<void> {
    if (this.#closing !== undefined) throw closed();
    await this.#watches.changed(key, lastSeen, options);
  }

  async health({ timeoutMs }: { timeoutMs: number }): Promise<StoreHealth> {
    try {
      const options = { label: "health", deadlineMs: timeoutMs, onUnknown: "safe" } as const;
      const commitProbeMs = await this.#run(options, async (attempt) => {
        await attempt.snapshot.get(PROBE_KEY);
        attempt.addWriteConflict(PROBE_RANGE);
        const sentAt = performance.now();
        await attempt.commit();
        return performance.now() - sentAt;
      });
      return { ok: true, detail: "a read and a commit that writes nothing were answered", commitProbeMs };
    } catch (error) {
      return { ok: false, detail: problemOf(error) };
    }
  }

  async clusterStatus({ timeoutMs }: { timeoutMs: number }): Promise<StoreCluster> {
    if (this.#closing !== undefined) throw closed();
    return readClusterStatus(this.#connection, timeoutMs);
  }

  close({ drainMs }: { drainMs: number }): Promise<void> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    const watches = this.#watches.close();
    await withinMs(drainMs, this.#idle());
    for (const operation of this.#running.keys()) operation.end("closed", "the store was closed");
    await withinMs(CANCEL_MS, Promise.all([watches, this.#idle()]));
    this.#connection.database.close();
  }

  async #idle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  async #run<T>(options: TransactOptions, use: (attempt: FoundationdbAttempt) => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw closed();
    const operation = new Operation({
      ...options,
      maxRetryDelayMs: this.#maxRetryDelayMs,
      deadlines: this.#deadlines,
    });
    const result = operation.run((number) => this.#once(operation, number, options, use));
    this.#running.set(operation, result);
    try {
      return await result;
    } finally {
      this.#running.delete(operation);
    }
  }

  async #once<T>(
    operation: Operation,
    number: number,
    options: TransactOptions,
    use: (attempt: FoundationdbAttempt) => Promise<T>,
  ): Promise<T> {
    const attempt = this.#attempt(number, {
      timeoutMs: Math.min(this.#timeoutMs, operation.remainingMs + ENGINE_TIMEOUT_SLACK_MS),
      priority: options.priority ?? "default",
    });
    operation.current = attempt;
    try {
      return await use(attempt);
    } catch (error) {
      attempt.cancel();
      throw attempt.failure ?? error;
    }
  }

  #attempt(number: number, options: EngineOptions): FoundationdbAttempt {
    try {
      return new FoundationdbAttempt(this.#connection, number, options);
    } catch (error) {
      throw storeErrorOf(error, "before_commit");
    }
  }
}

function closed(): StoreError {
  return new StoreError("closed", "the store is closed");
}

/** The messages of the error and its causes, down to that of the client library. */
function problemOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${problemOf(error.cause)}`;
}

async function withinMs(ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  await Promise.race([work, systemClock.sleep(ms, done.signal)]);
  done.abort();
}
