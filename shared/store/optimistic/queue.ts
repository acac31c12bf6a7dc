/**
 * Group commit: requests that arrive while a batch is being committed form the next one, already encoded, so the writer
 * never waits for encoding and one disk flush serves many transactions. Batches begin a few milliseconds apart at least: a
 * batch costs the same wake-ups and flushes for one request as for many, and on a machine that is half busy with batches of one
 * everything else is late. The first request after a rest never waits.
 *
 * `batch` requests go only when no `default` request waits, or when the oldest of them has waited {@link BATCH_WAIT_MS}:
 * they yield, but never starve.
 */
import type { Clock } from "../../runtime/clock.ts";
import { type Bytes, StoreError, type TransactOptions } from "../store.ts";
import type { PendingCommit } from "./attempt.ts";
import { ByteWriter } from "./bytes.ts";
import { type BatchResult, NOT_COMMITTED, type Slab } from "./commit.ts";
import { type CommitRequest, encodeRequest, withdrawRequest } from "./request.ts";
import { commitStamp } from "./stamps.ts";

const BATCH_WAIT_MS = 50;
const SLAB_BYTES = 524_288;
/** Bounds one batch: its transactions wait for each other, and clients of the one before must be served meanwhile. */
const SLABS_PER_BATCH = 8;
const SPARE_MAX = 2 * SLABS_PER_BATCH;

interface Entry {
  readonly resolve: (stamp: Bytes) => void;
  readonly reject: (error: StoreError) => void;
}

/** Requests encoded one after the other into memory that moves to the writer as a whole. */
interface Filling {
  readonly out: ByteWriter;
  readonly entries: Entry[];
  readonly openedAt: number;
  handedOver: boolean;
}

export interface QueueOptions {
  readonly clock: Clock;
  /** Between the beginnings of two batches, at least. */
  readonly paceMs: number;
  /** One call at a time. A rejection is a StoreError that holds for every request of the batch. */
  commit(slabs: Slab[]): Promise<BatchResult>;
  /** After each batch that changed something or may have. */
  committed(): void;
}

export class CommitQueue {
  readonly #options: QueueOptions;
  readonly #default: Filling[] = [];
  readonly #batch: Filling[] = [];
  /** Used again: memory of this size, allocated for every batch, keeps the garbage collector busy. */
  readonly #spare: ArrayBuffer[] = [];
  #underWay: Promise<void> | undefined;
  #scheduled = false;
  #begunAt = Number.NEGATIVE_INFINITY;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  submit(request: CommitRequest, priority: NonNullable<TransactOptions["priority"]>): PendingCommit {
    const filling = this.#open(priority === "batch" ? this.#batch : this.#default);
    const offset = encodeRequest(filling.out, request);
    const { promise, resolve, reject } = Promise.withResolvers<Bytes>();
    filling.entries.push({ resolve, reject });
    this.#schedule();
    return {
      done: promise,
      get handedOver() {
        return filling.handedOver;
      },
      withdraw: () => {
        if (!filling.handedOver) withdrawRequest(filling.out, offset);
      },
    };
  }

  /** Resolves when nothing is queued or under way. */
  async idle(): Promise<void> {
    while (this.#scheduled || this.#underWay !== undefined) {
      await (this.#underWay ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  #open(lane: Filling[]): Filling {
    const last = lane.at(-1);
    if (last !== undefined && last.out.length < SLAB_BYTES * FULL) return last;
    const filling: Filling = {
      out: new ByteWriter(Buffer.from(this.#spare.pop() ?? new ArrayBuffer(SLAB_BYTES))),
      entries: [],
      openedAt: this.#options.clock.monotonic(),
      handedOver: false,
    };
    lane.push(filling);
    return filling;
  }

  /** At the earliest after the current turn of the event loop, so that everything that becomes ready in it goes together. */
  #schedule(): void {
    if (this.#scheduled || this.#underWay !== undefined) return;
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
    if (this.#underWay !== undefined) return;
    const fillings = this.#take();
    if (fillings.length === 0) return;
    this.#begunAt = this.#options.clock.monotonic();
    this.#underWay = this.#commit(fillings);
  }

  #take(): Filling[] {
    const taken = this.#default.splice(0, SLABS_PER_BATCH);
    const oldest = this.#batch[0];
    if (oldest !== undefined) {
      const waited = this.#options.clock.monotonic() - oldest.openedAt;
      // One slab: a `default` request that arrives just after it has to wait for it.
      if (taken.length === 0 || waited >= BATCH_WAIT_MS) taken.push(...this.#batch.splice(0, 1));
    }
    return taken;
  }

  async #commit(fillings: Filling[]): Promise<void> {
    const slabs = fillings.map((filling) => {
      filling.handedOver = true;
      return { buffer: filling.out.take(), requests: filling.entries.length };
    });
    const entries = fillings.flatMap((filling) => filling.entries);
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
    this.#underWay = undefined;
    if (this.#default.length > 0 || this.#batch.length > 0) {
      // First: the writer works on the next batch while the callers of this one go on.
      if (this.#options.clock.monotonic() - this.#begunAt >= this.#options.paceMs) this.#pump();
      else this.#schedule();
    }
    settle();
  }
}

/** A slab is closed when this much of it is used, so that a request of usual size seldom makes it grow. */
const FULL = 0.9;

function settleAll(entries: readonly Entry[], outcomes: BigUint64Array): void {
  for (const [index, entry] of entries.entries()) {
    const sequence = outcomes[index]!;
    if (sequence !== NOT_COMMITTED) entry.resolve(commitStamp(sequence));
    else entry.reject(new StoreError("conflict", "what the transaction read was changed before its commit"));
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
