/** Tells by their idempotency records which commands were applied, and makes sure of one that it was not. */
import type { CommandAnswer } from "../../protocol/answers.ts";
import type { FleetError } from "../../protocol/errors.ts";
import type { Store } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { asFleetError } from "../kv/store-errors.ts";
import type { Transactions } from "../kv/transactions.ts";
import { closeCommand } from "./closed-command.ts";
import type { Caller } from "./command-runner.ts";
import { appliedAt, isAnswered } from "./idempotency.ts";

export class AppliedCommands {
  readonly #store: Store;
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor(store: Store, transactions: Transactions, now: () => number) {
    this.#store = store;
    this.#transactions = transactions;
    this.#now = now;
  }

  /** True if a command was applied and its idempotency record is still kept. */
  isApplied(tenant: string, commandId: string, deadlineMs: number): Promise<boolean> {
    const key = tenantKeys(tenant).command(commandId);
    return this.#transactions.read(
      "is_applied",
      async (reader) => isAnswered(await reader.get(key)),
      deadlineMs,
    );
  }

  /**
   * Throws the refusal of a command of which an earlier attempt may be in flight, once none can commit any more. Resolves with the answer
   * of one that has committed.
   */
  async settle(
    caller: Pick<Caller, "actor" | "commandId" | "requestHash">,
    refusal: FleetError,
    deadlineMs: number,
  ): Promise<CommandAnswer> {
    const closed = await closeCommand(this.#transactions, { ...caller, nowMs: this.#now() }, deadlineMs);
    if (closed === null) throw refusal;
    const { answer, position } = closed.replay;
    const committed = { status: "committed", command_id: caller.commandId, ...answer, position };
    return { ...committed, replayed: true } as CommandAnswer;
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
    for (;;) {
      const record = await this.#transactions.read("is_applied", (reader) => reader.get(key), deadlineMs);
      if (isAnswered(record) || signal.aborted) return isAnswered(record);
      await this.#store.changed(key, record, { signal, pollMs: waitMs }).catch((error: unknown) => {
        throw asFleetError(error);
      });
    }
  }
}
