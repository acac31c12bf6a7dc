/**
 * The store of a simulation: the memory engine as a server with a disk. Each process opens a handle of its own, as with a cluster or a shared
 * file. Commits are validated, logged, synced and then visible, one batch after the other. Faults come from a plan, decided by `random`.
 */
import { type Clock, systemClock } from "../../../shared/runtime/clock.ts";
import { MemoryEngine } from "../../../shared/store/drivers/memory.ts";
import type { BatchResult, Slab } from "../../../shared/store/optimistic/commit.ts";
import type { Engine, Snapshot } from "../../../shared/store/optimistic/engine.ts";
import { OptimisticStore } from "../../../shared/store/optimistic/store.ts";
import { type Store, StoreError } from "../../../shared/store/store.ts";
import { currentProcess, outside, type SimulatedProcess } from "../time/processes.ts";
import { type DiskObserver, SimulatedDisk } from "./disk.ts";
import { appendBatch, recoverLog, refuse } from "./log.ts";

/** The shares are of all commits. */
export interface StoreFaultPlan {
  /** Each of the three steps of a commit (arrival, sync, answer) takes a random time up to this, in milliseconds. */
  readonly latencyMs: number;
  /** Conflicts without a reason, which the contract of the store permits. */
  readonly conflicts: number;
  /** Results that the caller does not learn: of the commits, a third each is applied, lost, and applied later. */
  readonly unknown: number;
  /** Commits that hang, with all that follow. */
  readonly stalls: number;
  readonly stallMs: number;
  /** Transactions that pause before their body and before their commit, up to `pauseMs`, so that others overtake them. */
  readonly pauses: number;
  readonly pauseMs: number;
}

export const NO_STORE_FAULTS: StoreFaultPlan = {
  latencyMs: 0,
  conflicts: 0,
  unknown: 0,
  stalls: 0,
  stallMs: 0,
  pauses: 0,
  pauseMs: 0,
};

const LATE_MS_MAX = 2_000;

export interface DatabaseOptions {
  readonly random: () => number;
  readonly faults?: StoreFaultPlan;
  readonly clock?: Clock;
  readonly observe?: DiskObserver;
}

type Unknown = "applied" | "lost" | "late";
const UNKNOWN: readonly Unknown[] = ["applied", "lost", "late"];

export class SimulatedDatabase {
  /** May be changed at any time. */
  faults: StoreFaultPlan;
  /** The faults that occurred, by name. */
  readonly counts = { conflicts: 0, applied: 0, lost: 0, late: 0, stalls: 0 };
  readonly #random: () => number;
  readonly #clock: Clock;
  readonly #disk: SimulatedDisk;
  readonly #watchers = new Set<() => void>();
  #state: MemoryEngine;
  #isDown = false;
  /** Counts the power cuts: what began before one ends with it. */
  #life = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor({ random, faults = NO_STORE_FAULTS, clock = systemClock, observe }: DatabaseOptions) {
    this.#random = random;
    this.faults = faults;
    this.#clock = clock;
    this.#disk = new SimulatedDisk(observe);
    this.#state = new MemoryEngine(clock);
  }

  /** Opens a handle for the current process; it ends with the process. */
  async open(): Promise<Store> {
    return pausingStore(new OptimisticStore(new Handle(this), this.#clock), this);
  }

  /** A random time up to `most`. No time passes if that is 0. */
  async pause(most: number): Promise<void> {
    if (most > 0) await this.#clock.sleep(this.#random() * most);
  }

  isHit(share: number): boolean {
    return share > 0 && this.#random() < share;
  }

  snapshot(): Snapshot {
    if (this.#isDown) throw unavailable();
    return this.#state.snapshot();
  }

  commit(slabs: Slab[]): Promise<BatchResult> {
    const committed = this.#last.then(() => this.#commit(slabs));
    this.#last = committed.catch(() => {});
    return committed.then(async (result) => {
      await this.pause(this.faults.latencyMs);
      return result;
    });
  }

  /** Calls `noticed` after each batch of any handle. */
  watch(noticed: () => void): () => void {
    this.#watchers.add(noticed);
    return () => this.#watchers.delete(noticed);
  }

  /** The power fails: the state is what the disk kept, when {@link start} is called. */
  cutPower(): void {
    this.#isDown = true;
    this.#life += 1;
    this.#disk.powerCut(this.#random);
  }

  start(): void {
    // It would read what is not synced, and apply a batch that is on its way to the disk twice.
    if (!this.#isDown) throw new Error("the simulated store was started although it has its power");
    this.#state = new MemoryEngine(this.#clock);
    for (const slab of recoverLog(this.#disk)) this.#state.apply([slab]);
    this.#isDown = false;
    this.#notify();
  }

  async #commit(slabs: Slab[], isLate = false): Promise<BatchResult> {
    const life = this.#life;
    if (this.isHit(this.faults.stalls)) {
      this.counts.stalls += 1;
      await this.pause(this.faults.stallMs);
    }
    await this.pause(this.faults.latencyMs);
    if (this.#isDown || life !== this.#life) throw unavailable();
    const unknown = !isLate && this.isHit(this.faults.unknown) ? this.#unknown() : undefined;
    if (unknown === "lost") throw lostResult("maybe_settled");
    if (unknown === "late") {
      this.#commitLater(slabs);
      throw lostResult("maybe_in_flight");
    }
    for (const slab of slabs) refuse(slab, () => this.#isRefused());
    appendBatch(this.#disk, slabs);
    await this.pause(this.faults.latencyMs);
    if (life !== this.#life) throw lostResult("maybe_settled");
    this.#disk.sync();
    const result = this.#state.apply(slabs);
    this.#notify();
    if (unknown === "applied") throw lostResult("maybe_settled");
    return result;
  }

  #isRefused(): boolean {
    const isRefused = this.isHit(this.faults.conflicts);
    if (isRefused) this.counts.conflicts += 1;
    return isRefused;
  }

  #unknown(): Unknown {
    const outcome = UNKNOWN[Math.floor(this.#random() * UNKNOWN.length)]!;
    this.counts[outcome] += 1;
    return outcome;
  }

  #commitLater(slabs: Slab[]): void {
    void this.pause(LATE_MS_MAX).then(() => {
      this.#last = this.#last.then(() => this.#commit(slabs, true)).catch(() => {});
    });
  }

  #notify(): void {
    for (const noticed of this.#watchers) noticed();
  }
}

const unavailable = (): StoreError => new StoreError("unavailable", "the simulated store is down");

const lostResult = (committed: "maybe_settled" | "maybe_in_flight"): StoreError =>
  new StoreError("commit_unknown", "the simulated store lost the result", { committed });

/** The engine of one handle: the border between its process and the database. */
class Handle implements Engine {
  readonly name = "memory";
  readonly paceMs = 0;
  readonly #database: SimulatedDatabase;
  readonly #process: SimulatedProcess | undefined;
  readonly #open = new Set<Snapshot>();
  #unwatch: () => void = () => {};

  constructor(database: SimulatedDatabase) {
    this.#database = database;
    this.#process = currentProcess();
    this.#process?.onKill(() => this.#free());
  }

  snapshot(): Snapshot {
    const taken = this.#database.snapshot();
    const own: Snapshot = {
      sequence: taken.sequence,
      openedAt: taken.openedAt,
      get: (key) => taken.get(key),
      rows: (range, limit, reverse) => taken.rows(range, limit, reverse),
      release: () => {
        this.#open.delete(own);
        taken.release();
      },
    };
    this.#open.add(own);
    return own;
  }

  commit(slabs: Slab[]): Promise<BatchResult> {
    const result = outside(() => this.#database.commit(slabs));
    return this.#process === undefined ? result : this.#process.arrival(result);
  }

  watch(noticed: () => void): void {
    const own = this.#process;
    this.#unwatch = this.#database.watch(own === undefined ? noticed : () => own.run(noticed));
  }

  async close(): Promise<void> {
    this.#free();
  }

  #free(): void {
    this.#unwatch();
    for (const snapshot of this.#open) snapshot.release();
  }
}

/** A store whose transactions pause at random, so that others overtake them. */
function pausingStore(store: Store, database: SimulatedDatabase): Store {
  const pause = async (): Promise<void> => {
    const { pauses, pauseMs } = database.faults;
    if (database.isHit(pauses)) await database.pause(pauseMs);
  };
  return {
    name: store.name,
    transact: (options, body) =>
      store.transact(options, async (tx) => {
        await pause();
        const value = await body(tx);
        await pause();
        return value;
      }),
    read: (options, body) =>
      store.read(options, async (reader) => {
        await pause();
        return await body(reader);
      }),
    changed: (key, lastSeen, options) => store.changed(key, lastSeen, options),
    health: (options) => store.health(options),
    close: (options) => store.close(options),
  };
}
