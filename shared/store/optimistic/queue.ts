/**
 * Group commit: requests that arrive during the commit of a batch form the next batch, already encoded, so
 * the writer never waits for the encoding and one disk flush serves many transactions. Batches begin at least
 * a few milliseconds apart: a batch of one costs as many wake-ups and flushes as a batch of many, and a
 * machine that is half busy with batches of one delays all other work. The first request after an idle time
 * never waits.
 *
 * `batch` requests are committed only when no `default` request waits, or when the oldest of them has waited
 * {@link BATCH_WAIT_MS}: they yield, but never starve.
 */
import type { Clock } from "../../runtime/clock.ts";
import { createDeferred } from "../../runtime/deferred.ts";
import { type Bytes, StoreError, type TransactOptions } from "../store.ts";
import type { PendingCommit } from "./attempt.ts";
import { ByteWriter } from "./bytes.ts";
import { type BatchResult, NOT_COMMITTED, type Slab } from "./commit.ts";
import { type CommitRequest, encodeRequest, withdrawRequest } from "./request.ts";
import { commitStamp } from "./stamps.ts";

const BATCH_WAIT_MS = 50;
const SLAB_BYTES = 524_288;
/**
 * Bounds one batch: its transactions wait for each other, and the clients of the previous one must be served
 * meanwhile.
 */
const SLABS_PER_BATCH = 8;
const SPARE_MAX = 2 * SLABS_PER_BATCH;

interface Entry {
  readonly resolve: (stamp: Bytes) => void;
  readonly reject: (error: StoreError) => void;
}

/** Encoded requests in one block of memory, which is transferred to the writer as a whole. */
interface OpenSlab {
  readonly out: ByteWriter;
  readonly entries: Entry[];
  readonly openedAt: number;
  handedOver: boolean;
}

export interface QueueOptions {
  readonly clock: Clock;
  /** The least time between the beginnings of two batches. */
  readonly paceMs: number;
  /** One call at a time. A rejection is a StoreError that holds for every request of the batch. */
  commit(slabs: Slab[]): Promise<BatchResult>;
  /** Called after each committed batch. */
  committed(): void;
}

export class CommitQueue {
  readonly #options: QueueOptions;
  readonly #default: OpenSlab[] = [];
  readonly #batch: OpenSlab[] = [];
  /** Memory for reuse: allocated for every batch, memory of this size keeps the garbage collector busy. */
  readonly #spare: ArrayBuffer[] = [];
  #committing: Promise<void> | undefined;
  #scheduled = false;
  #begunAt = Number.NEGATIVE_INFINITY;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  submit(request: CommitRequest, priority: NonNullable<TransactOptions["priority"]>): PendingCommit {
    const slab = this.#open(priority === "batch" ? this.#batch : this.#default);
    const offset = encodeRequest(slab.out, request);
    const { promise, resolve, reject } = createDeferred<Bytes>();
    slab.entries.push({ resolve, reject });
    this.#schedule();
    return {
      done: promise,
      get handedOver() {
        return slab.handedOver;
      },
      withdraw: () => {
        if (!slab.handedOver) withdrawRequest(slab.out, offset);
      },
    };
  }

  /** Resolves when no request is queued or being committed. */
  async idle(): Promise<void> {
    while (this.#scheduled || this.#committing !== undefined) {
      await (this.#committing ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  #open(queue: OpenSlab[]): OpenSlab {
    const last = queue.at(-1);
    if (last !== undefined && last.out.length < SLAB_BYTES * FULL) return last;
    const slab: OpenSlab = {
      out: new ByteWriter(Buffer.from(this.#spare.pop() ?? new ArrayBuffer(SLAB_BYTES))),
      entries: [],
      openedAt: this.#options.clock.monotonic(),
      handedOver: false,
    };
    queue.push(slab);
    return slab;
  }

  /**
   * Commits after the current turn of the event loop at the earliest, so that all requests of one turn form
   * one batch.
   */
  #schedule(): void {
    if (this.#scheduled || this.#committing !== undefined) return;
    this.#scheduled = true;
    const pump = (): void => {
      this.#scheduled = false;
      this.#pump();
    };
    const waitMs = this.#begunAt + this.#options.paceMs - this.#options.clock.monotonic();
    if (waitMs > 0) void this.#options.clock.sleep(waitMs).then(pump);
    else setImmediate(pump);
  }

  #pump(): void {
    if (this.#committing !== undefined) return;
    const slabs = this.#take();
    if (slabs.length === 0) return;
    this.#begunAt = this.#options.clock.monotonic();
    this.#committing = this.#commit(slabs);
  }

  #take(): OpenSlab[] {
    const taken = this.#default.splice(0, SLABS_PER_BATCH);
    const oldest = this.#batch[0];
    if (oldest !== undefined) {
      const waited = this.#options.clock.monotonic() - oldest.openedAt;
      // One slab only, because a `default` request that arrives right after it must wait for it.
      if (taken.length === 0 || waited >= BATCH_WAIT_MS) taken.push(...this.#batch.splice(0, 1));
    }
    return taken;
  }

  async #commit(taken: OpenSlab[]): Promise<void> {
    const slabs = taken.map((slab) => {
      slab.handedOver = true;
      return { buffer: slab.out.take(), requests: slab.entries.length };
    });
    const entries = taken.flatMap((slab) => slab.entries);
    let settle: () => void;
    try {
      const { outcomes, buffers } = await this.#options.commit(slabs);
      this.#options.committed();
      const used = buffers.filter((buffer) => buffer.byteLength === SLAB_BYTES);
      this.#spare.push(...used.slice(0, SPARE_MAX - this.#spare.length));
      settle = () => settleAll(entries, outcomes);
    } catch (error) {
      settle = () => rejectAll(entries, error);
    }
    this.#committing = undefined;
    if (this.#default.length > 0 || this.#batch.length > 0) {
      // First, so that the writer works on the next batch while the callers of this one continue.
      if (this.#options.clock.monotonic() - this.#begunAt >= this.#options.paceMs) this.#pump();
      else this.#schedule();
    }
    settle();
  }
}

/** The used share at which a slab is full, so that a request of usual size rarely makes it grow. */
const FULL = 0.9;

function settleAll(entries: readonly Entry[], outcomes: BigUint64Array): void {
  for (const [index, entry] of entries.entries()) {
    const sequence = outcomes[index]!;
    if (sequence !== NOT_COMMITTED) entry.resolve(commitStamp(sequence));
    else
      entry.reject(
        new StoreError("conflict", "the values that the transaction read changed before its commit"),
      );
  }
}

function rejectAll(entries: readonly Entry[], error: unknown): void {
  const reason =
    error instanceof StoreError
      ? error
      : new StoreError("fatal", "the commit failed in an unexpected way", {
          committed: "maybe_settled",
          cause: error,
        });
  for (const entry of entries) entry.reject(reason);
}
