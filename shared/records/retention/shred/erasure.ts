/** Holds and shredding of tasks: their commands and their lists. */
import type { RetentionAnswer } from "../../../protocol/answers.ts";
import type { HoldCommand, HoldPage } from "../../../protocol/holds.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import type { QueryParams } from "../../../protocol/queries.ts";
import type {
  ShredAnswer,
  ShredApproveCommand,
  ShredCancelCommand,
  ShredPage,
  ShredRequestCommand,
} from "../../../protocol/shred.ts";
import type { ShredCertificate } from "../../../protocol/shred-certificate.ts";
import type { Transactions } from "../../kv/transactions.ts";
import type { Caller, CommandRunner } from "../../task/command-runner.ts";
import { holdTask, listHolds } from "../holds.ts";
import { readCertificate } from "./shred-certificate.ts";
import { approveShred, cancelShred, requestShred } from "./shred-commands.ts";
import { listShreds } from "./shred-index.ts";
import { PromisesUnread, ShredPromises } from "./shred-promises.ts";

/** The share of a command's time for reading the promises of its task; the rest is for its transactions. */
const READ_SHARE = 0.4;
/** A task that changes all the time is in use. */
const READS_MAX = 5;

export class Erasure {
  readonly #transactions: Transactions;
  readonly #commands: CommandRunner;
  readonly #promises: ShredPromises;

  constructor(parts: ConstructorParameters<typeof ShredPromises>[0], commands: CommandRunner) {
    this.#transactions = parts.transactions;
    this.#commands = commands;
    this.#promises = new ShredPromises(parts);
  }

  hold(caller: Caller, command: HoldCommand): Promise<RetentionAnswer> {
    return this.#commands.run("hold", caller, (tx, context) => holdTask(tx, context, command));
  }

  holds(tenant: string, query: QueryParams<"holds">): Promise<HoldPage> {
    return this.#transactions.read("holds", (reader) => listHolds(reader, tenant, query));
  }

  request(caller: Caller, command: ShredRequestCommand): Promise<ShredAnswer> {
    return this.#withPromises(caller, () =>
      this.#commands.run("shred_request", caller, (tx, context) =>
        requestShred(tx, context, command, (head) => this.#promises.of(head)),
      ),
    );
  }

  approve(caller: Caller, command: ShredApproveCommand): Promise<ShredAnswer> {
    return this.#withPromises(caller, () =>
      this.#commands.run("shred_approve", caller, (tx, context) =>
        approveShred(tx, context, command, (head) => this.#promises.of(head)),
      ),
    );
  }

  /** Runs the command, and once more after each reading that its transaction finds to be missing. */
  async #withPromises({ actor, deadlineMs }: Caller, run: () => Promise<ShredAnswer>): Promise<ShredAnswer> {
    const forMs = (deadlineMs ?? LIMITS.command_deadline_ms) * READ_SHARE;
    const { tenant, task } = actor;
    for (let reads = 1; ; reads += 1) {
      try {
        return await run();
      } catch (error) {
        if (!(error instanceof PromisesUnread) || reads > READS_MAX) throw error;
        await this.#promises.read({ tenant, task }, forMs);
      }
    }
  }

  cancel(caller: Caller, command: ShredCancelCommand): Promise<ShredAnswer> {
    return this.#commands.run("shred_cancel", caller, (tx, context) => cancelShred(tx, context, command));
  }

  certificate(tenant: string, { task_id }: QueryParams<"shred_certificate">): Promise<ShredCertificate> {
    return this.#transactions.read("shred_certificate", (reader) => readCertificate(reader, tenant, task_id));
  }

  shreds(tenant: string, query: QueryParams<"shreds">): Promise<ShredPage> {
    return this.#transactions.read("shreds", (reader) => listShreds(reader, tenant, query));
  }
}
