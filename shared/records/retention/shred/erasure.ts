/** Holds and shredding of tasks: their commands and their lists. */
import type { RetentionAnswer } from "../../../protocol/answers.ts";
import type { HoldCommand, HoldPage } from "../../../protocol/holds.ts";
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

export class Erasure {
  readonly #transactions: Transactions;
  readonly #commands: CommandRunner;

  constructor(transactions: Transactions, commands: CommandRunner) {
    this.#transactions = transactions;
    this.#commands = commands;
  }

  hold(caller: Caller, command: HoldCommand): Promise<RetentionAnswer> {
    return this.#commands.run("hold", caller, (tx, context) => holdTask(tx, context, command));
  }

  holds(tenant: string, query: QueryParams<"holds">): Promise<HoldPage> {
    return this.#transactions.read("holds", (reader) => listHolds(reader, tenant, query));
  }

  request(caller: Caller, command: ShredRequestCommand): Promise<ShredAnswer> {
    return this.#commands.run("shred_request", caller, (tx, context) => requestShred(tx, context, command));
  }

  approve(caller: Caller, command: ShredApproveCommand): Promise<ShredAnswer> {
    return this.#commands.run("shred_approve", caller, (tx, context) => approveShred(tx, context, command));
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
