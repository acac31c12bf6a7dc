/**
 * Runs commands: one transaction for each, after the earlier commands on its tasks. A corrupt checkpoint that a
 * command meets is restored and the command run again, or it is quarantined, as for a query.
 */
import type { SaltSource } from "../../integrity/seal.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Policies } from "../../protocol/policy.ts";
import type { Tx } from "../../store/store.ts";
import type { Findings } from "../corruption/report-corrupt.ts";
import { refusalBehind } from "../kv/store-errors.ts";
import type { Transactions } from "../kv/transactions.ts";
import { closeCommand } from "./closed-command.ts";
import type { CommandContext, Replay } from "./command-transaction.ts";
import type { RememberedAnswer } from "./idempotency.ts";
import { TaskMutexes } from "./task-mutex.ts";

/**
 * The part of a command's context that its caller gives; the repository adds time, incarnation and policy.
 */
export type Caller = Omit<CommandContext, "nowMs" | "incarnation" | "policies" | "isMirrored" | "newSalt"> & {
  /** The deadline of the whole command, over all attempts. Default {@link LIMITS.command_deadline_ms}. */
  readonly deadlineMs?: number;
};

/** The share of a command's time for waiting on earlier commands of its task; the rest is for the store. */
const WAIT_SHARE = LIMITS.task_wait_ms_max / LIMITS.command_answer_ms_max;

type Verb<A> = (tx: Tx, context: CommandContext) => Promise<A | Replay>;
type Answered<A> = { status: "committed"; command_id: string } & A & { position: string; replayed: boolean };

interface RunnerParts {
  readonly transactions: Transactions;
  readonly findings: Findings;
  readonly incarnation: number;
  readonly now: () => number;
  readonly policies: Policies;
  readonly isMirrored: boolean;
  readonly newSalt: SaltSource;
}

export class CommandRunner {
  readonly #parts: RunnerParts;
  readonly #mutexes = new TaskMutexes();

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /** `alsoTask`: a further task whose head the command changes. */
  async run<A extends RememberedAnswer>(
    op: string,
    caller: Caller,
    verb: Verb<A>,
    alsoTask?: string,
  ): Promise<Answered<A>> {
    const { transactions, findings, incarnation, now, policies, isMirrored, newSalt } = this.#parts;
    const own = { incarnation, policies, isMirrored, newSalt };
    const { actor, deadlineMs = LIMITS.command_deadline_ms } = caller;
    const tasks = [actor.task, ...(alsoTask === undefined ? [] : [alsoTask])];
    const names = tasks.map((task) => `${actor.tenant}/${task}`);
    const runOnce = () =>
      this.#mutexes.runAll(names, deadlineMs * WAIT_SHARE, (waitedMs) =>
        transactions.transact(
          op,
          (tx) => verb(tx, { ...caller, ...own, nowMs: now() }),
          deadlineMs - waitedMs,
        ),
      );
    const running = runOnce().catch(async (error: unknown) => {
      if (await findings.keepOf(actor.tenant, actor.task, error)) return runOnce();
      throw error;
    });
    const { value, stamp } = await running.catch(async (error: unknown) => ({
      value: await this.#close(caller, error),
      stamp: null,
    }));
    const replayed = "replay" in value;
    // The hash that told the replay from a misuse of its id covers the operation, so the answer is of the same kind.
    const answer = replayed ? (value.replay.answer as A) : value;
    const position = replayed ? value.replay.position : Buffer.from(stamp ?? []).toString("hex");
    return { status: "committed", command_id: caller.commandId, ...answer, position, replayed };
  }

  /** Returns the answer of an earlier attempt that was in flight when a later one was refused. Otherwise throws the error or that refusal. */
  async #close(caller: Caller, error: unknown): Promise<Replay> {
    const refusal = refusalBehind(error);
    if (refusal === null) throw error;
    const { transactions, now } = this.#parts;
    const { deadlineMs = LIMITS.command_deadline_ms } = caller;
    const closing = closeCommand(transactions, { ...caller, nowMs: now() }, deadlineMs);
    const replay = await closing.catch(() => {
      throw error;
    });
    if (replay === null) throw refusal;
    return replay;
  }
}
