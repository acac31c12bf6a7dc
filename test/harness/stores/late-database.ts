/** A database in memory whose commits can be in flight: their process gets no result, and they take effect when the test lets them arrive. */
import { systemClock } from "../../../shared/runtime/clock.ts";
import { MemoryEngine } from "../../../shared/store/drivers/memory.ts";
import { type BatchResult, NOT_COMMITTED, type Slab } from "../../../shared/store/optimistic/commit.ts";
import type { Engine, Snapshot } from "../../../shared/store/optimistic/engine.ts";
import { OptimisticStore } from "../../../shared/store/optimistic/store.ts";
import { type Store, StoreError } from "../../../shared/store/store.ts";

/** What the process learns of a commit that is in flight. */
export type Notice = "unknown" | "nothing";

export class LateDatabase {
  readonly #state = new MemoryEngine(systemClock);
  readonly #commits: Slab[][] = [];
  #next: Notice | undefined;

  /** A handle of one process. */
  open(): Store {
    const engine: Engine = {
      name: "memory",
      paceMs: 0,
      snapshot: (): Snapshot => this.#state.snapshot(),
      commit: (slabs) => this.#commit(slabs),
      close: async () => {},
    };
    return new OptimisticStore(engine, systemClock);
  }

  /** The next commit stays in flight. */
  delayNext(notice: Notice): void {
    this.#next = notice;
  }

  get inFlight(): number {
    return this.#commits.length;
  }

  /** The commits in flight arrive. Tells of each whether it took effect. */
  arrive(): boolean[] {
    return this.#commits.splice(0).flatMap((slabs) => {
      const { outcomes } = this.#state.apply(slabs);
      return [...outcomes].map((outcome) => outcome !== NOT_COMMITTED);
    });
  }

  async #commit(slabs: Slab[]): Promise<BatchResult> {
    const notice = this.#next;
    if (notice === undefined) return this.#state.commit(slabs);
    this.#next = undefined;
    this.#commits.push(slabs);
    if (notice === "nothing") return new Promise(() => {});
    throw new StoreError("commit_unknown", "the result was lost on purpose", {
      committed: "maybe_in_flight",
    });
  }
}
