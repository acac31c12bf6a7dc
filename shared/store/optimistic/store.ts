/**
 * The {@link Store} over an embedded engine, with everything that LMDB and memory have in common. The engine
 * provides snapshots and commits batches; attempts, retries, waits and closing are implemented here.
 */
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { Deadlines } from "../deadlines.ts";
import { checkKey } from "../limits.ts";
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
import { OptimisticAttempt } from "./attempt.ts";
import { Changes } from "./changes.ts";
import type { Engine, Snapshot } from "./engine.ts";
import { PROBE_KEY } from "./keys.ts";
import { Overlay } from "./overlay.ts";
import { CommitQueue } from "./queue.ts";
import { ReadSet } from "./request.ts";

/** Long pauses do not relieve an embedded engine: a pause only lets the other transaction finish. */
const MAX_RETRY_DELAY_MS = 50;

export class OptimisticStore implements Store {
  readonly name: "lmdb" | "memory";
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #queue: CommitQueue;
  readonly #changes = new Changes();
  readonly #deadlines = new Deadlines();
  readonly #running = new Map<Operation, Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(engine: Engine, clock: Clock) {
    this.name = engine.name;
    this.#engine = engine;
    this.#clock = clock;
    this.#queue = new CommitQueue({
      clock,
      paceMs: engine.paceMs,
      commit: (slabs) => engine.commit(slabs),
      committed: () => this.#notice(),
    });
    engine.watch?.(() => this.#notice());
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
      attempt.finish();
      return value;
    });
  }

  async changed(
    key: Bytes,
    lastSeen: Bytes | undefined,
    options: { signal: AbortSignal; pollMs: number },
  ): Promise<void> {
    if (this.#closing !== undefined) throw closed();
    checkKey(key);
    const current = (of: Bytes) => this.#withSnapshot((snapshot) => snapshot.get(of));
    await this.#changes.wait({ key, lastSeen, current }, options);
  }

  async health({ timeoutMs }: { timeoutMs: number }): Promise<StoreHealth> {
    if (this.#closing !== undefined) return { ok: false, detail: "the store is closed" };
    const over = new AbortController();
    const timedOut = systemClock.sleep(timeoutMs, over.signal).then(() => "timed out" as const);
    const sentAt = performance.now();
    try {
      const answer = await Promise.race([this.#probe(), timedOut]);
      if (answer === "timed out") return { ok: false, detail: "a commit was not answered in time" };
      const commitProbeMs = performance.now() - sentAt;
      return { ok: true, detail: "a key was committed", commitProbeMs };
    } catch (error) {
      return { ok: false, detail: error instanceof Error ? error.message : String(error) };
    } finally {
      over.abort();
    }
  }

  close({ drainMs }: { drainMs: number }): Promise<void> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    const over = new AbortController();
    const drained = Promise.allSettled(this.#running.values()).then(() => this.#queue.idle());
    this.#changes.wakeAll();
    await Promise.race([drained, systemClock.sleep(drainMs, over.signal)]);
    over.abort();
    for (const operation of this.#running.keys()) operation.end("closed", "the store was closed");
    await this.#engine.close();
  }

  #notice(): void {
    if (this.#changes.isEmpty) return;
    this.#withSnapshot((snapshot) => this.#changes.check((key) => snapshot.get(key)));
  }

  #withSnapshot<T>(use: (snapshot: Snapshot) => T): T {
    const snapshot = this.#engine.snapshot();
    try {
      return use(snapshot);
    } finally {
      snapshot.release();
    }
  }

  async #probe(): Promise<void> {
    const overlay = new Overlay();
    overlay.set(PROBE_KEY, Buffer.from(String(this.#clock.now())));
    await this.#queue.submit({ sequence: 0n, reads: new ReadSet(), overlay }, "default").done;
  }

  async #run<T>(options: TransactOptions, use: (attempt: OptimisticAttempt) => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw closed();
    const operation = new Operation({
      ...options,
      maxRetryDelayMs: MAX_RETRY_DELAY_MS,
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
    { priority = "default" }: TransactOptions,
    use: (attempt: OptimisticAttempt) => Promise<T>,
  ): Promise<T> {
    const attempt = new OptimisticAttempt(number, {
      clock: this.#clock,
      snapshot: this.#engine.snapshot(),
      submit: (request) => this.#queue.submit(request, priority),
    });
    operation.current = attempt;
    try {
      return await use(attempt);
    } catch (error) {
      attempt.cancel();
      throw error;
    }
  }
}

function closed(): StoreError {
  return new StoreError("closed", "the store is closed");
}
