/** Transactions and reads of a store. Their failures are thrown as FleetErrors. */
import { LIMITS } from "../../protocol/limits.ts";
import type { CommitResult, Reader, Store, Tx } from "../../store/store.ts";
import { asFleetError } from "./store-errors.ts";

export class Transactions {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * The body may run again after a commit with unknown result, so it must decide only on what it reads in
   * `tx`.
   */
  async transact<T>(
    op: string,
    body: (tx: Tx) => Promise<T>,
    deadlineMs: number = LIMITS.command_deadline_ms,
  ): Promise<CommitResult<T>> {
    try {
      const options = { label: op, deadlineMs, onUnknown: "safe" } as const;
      return await this.#store.transact(options, body);
    } catch (error) {
      throw asFleetError(error);
    }
  }

  async read<T>(
    op: string,
    body: (reader: Reader) => Promise<T>,
    deadlineMs: number = LIMITS.query_deadline_ms,
  ): Promise<T> {
    try {
      return await this.#store.read({ label: op, deadlineMs }, body);
    } catch (error) {
      throw asFleetError(error);
    }
  }
}
