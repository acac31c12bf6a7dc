/** Asks by their idempotency records which commands were applied. */
import type { Store } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { asFleetError } from "../kv/store-errors.ts";
import type { Transactions } from "../kv/transactions.ts";
import { appliedAt } from "./idempotency.ts";

export class AppliedCommands {
  readonly #store: Store;
  readonly #transactions: Transactions;

  constructor(store: Store, transactions: Transactions) {
    this.#store = store;
    this.#transactions = transactions;
  }

  /** True if a command was applied and its idempotency record is still kept. */
  isApplied(tenant: string, commandId: string, deadlineMs: number): Promise<boolean> {
    const key = tenantKeys(tenant).command(commandId);
    return this.#transactions.read(
      "is_applied",
      async (reader) => (await reader.get(key)) !== undefined,
      deadlineMs,
    );
  }

  /** The times at which commands with this content were applied; null: never, or no longer recorded. */
  async appliedAt(
    tenant: string,
    commands: readonly { readonly id: string; readonly contentHash: string }[],
    deadlineMs: number,
  ): Promise<(string | null)[]> {
    const keys = tenantKeys(tenant);
    const records = await this.#transactions.read(
      "applied_at",
      (reader) => reader.getMany(commands.map(({ id }) => keys.command(id))),
      deadlineMs,
    );
    return commands.map(({ id, contentHash }, i) =>
      appliedAt(records[i], { tenant, command: id }, contentHash),
    );
  }

  /** Like `isApplied`, but waits up to `waitMs` for another instance to apply the command. */
  async isAppliedSoon(
    tenant: string,
    commandId: string,
    waitMs: number,
    deadlineMs: number,
  ): Promise<boolean> {
    const key = tenantKeys(tenant).command(commandId);
    const signal = AbortSignal.timeout(waitMs);
    while (!signal.aborted) {
      await this.#store.changed(key, undefined, { signal, pollMs: waitMs }).catch((error: unknown) => {
        throw asFleetError(error);
      });
      if (await this.isApplied(tenant, commandId, deadlineMs)) return true;
    }
    return false;
  }
}
