/**
 * The end of a command that is refused although an earlier attempt at it may be in flight, in this process or another one: the attempt
 * has sent its commit, has lost the result, and would apply the command after the refusal was answered. Every attempt reads the record
 * of its command, so a record that is written now conflicts with each earlier attempt (guarantee 3).
 */
import { tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import type { CommandContext, Replay } from "./command-transaction.ts";
import { isAnswered, recall, rememberClosed } from "./idempotency.ts";

type ClosedCommand = Pick<CommandContext, "actor" | "commandId" | "requestHash" | "nowMs">;

/**
 * Returns the answer of an earlier attempt that has committed; null: none has, and none can any more. A copy of the command that comes
 * later is a new attempt.
 */
export async function closeCommand(
  transactions: Transactions,
  { actor: { tenant }, commandId: command, requestHash, nowMs }: ClosedCommand,
  deadlineMs: number,
): Promise<Replay | null> {
  const keys = tenantKeys(tenant);
  const { value } = await transactions.transact(
    "close_command",
    async (tx) => {
      const seen = await tx.get(keys.command(command));
      if (isAnswered(seen)) return { replay: recall(seen, { tenant, command }, requestHash) };
      rememberClosed(tx, keys, { tenant, command, nowMs });
      return null;
    },
    deadlineMs,
  );
  return value;
}
