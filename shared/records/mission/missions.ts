/** The operations on missions: commands, each one transaction, and queries, each one snapshot. */

import type { Mission, RecoveryContext } from "../../protocol/mission.ts";
import type {
  MissionAnswer,
  MissionCheckpointAnswer,
  MissionCheckpointCommand,
  MissionResumeCommand,
  MissionStartCommand,
  MissionUpdateCommand,
  ResumptionAnswer,
  SortieAddCommand,
  SortieUpdateCommand,
} from "../../protocol/mission-commands.ts";
import type {
  LockAcquireCommand,
  LockAnswer,
  LockList,
  LockReleaseCommand,
  LockRenewCommand,
} from "../../protocol/mission-locks.ts";
import type {
  MailboxAnswer,
  MailboxPage,
  MailboxSubscribeCommand,
  MessageAckCommand,
  MessageAnswer,
  MessageCancelCommand,
  MessagePage,
  MessageSendCommand,
} from "../../protocol/mission-messages.ts";
import type {
  MissionPage,
  MissionRecordPage,
  ResumePreview,
  SortiePage,
} from "../../protocol/mission-queries.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Findings } from "../corruption/report-corrupt.ts";
import type { Transactions } from "../kv/transactions.ts";
import type { Caller, CommandRunner } from "../task/command-runner.ts";
import { readExportedRecords } from "../transfer/exported-records.ts";
import { acquireLock, listLocks, releaseLock, renewLock } from "./lock-commands.ts";
import {
  acknowledgeMessage,
  cancelMessage,
  sendMessage,
  subscribeMailbox,
} from "./messages/message-commands.ts";
import { listMessages, readOwnMailbox } from "./messages/message-lists.ts";
import { checkpointMission, startMission, updateMission } from "./mission-commands.ts";
import { findMission, listMissions, listSorties } from "./mission-lists.ts";
import { previewResumption, readRecoveryContext, resumeMission, unsoundBefore } from "./resumption.ts";
import { addSorties, updateSortie } from "./sortie-commands.ts";

interface MissionsParts {
  readonly transactions: Transactions;
  readonly findings: Findings;
  readonly now: () => number;
}

export class Missions {
  readonly #transactions: Transactions;
  readonly #commands: CommandRunner;
  readonly #findings: Findings;
  readonly #now: () => number;

  constructor({ transactions, findings, now }: MissionsParts, commands: CommandRunner) {
    this.#now = now;
    this.#transactions = transactions;
    this.#findings = findings;
    this.#commands = commands;
  }

  start(caller: Caller, command: MissionStartCommand): Promise<MissionAnswer> {
    return this.#commands.run("mission_start", caller, (tx, context) => startMission(tx, context, command));
  }

  update(caller: Caller, command: MissionUpdateCommand): Promise<MissionAnswer> {
    return this.#commands.run("mission_update", caller, (tx, context) => updateMission(tx, context, command));
  }

  checkpoint(caller: Caller, command: MissionCheckpointCommand): Promise<MissionCheckpointAnswer> {
    return this.#commands.run("mission_checkpoint", caller, (tx, context) =>
      checkpointMission(tx, context, command),
    );
  }

  async resume(caller: Caller, command: MissionResumeCommand): Promise<ResumptionAnswer> {
    const { tenant, task } = caller.actor;
    const copied = await this.#restoreCopies(tenant, task, command.checkpoint_id);
    const answer = await this.#commands.run("mission_resume", caller, (tx, context) =>
      resumeMission(tx, context, command),
    );
    // For the log alone: a repeated command must have the same answer, and the file may come meanwhile.
    await this.#missingCopies(tenant, task, answer.checkpoint_id);
    return { ...answer, ...copied };
  }

  addSorties(caller: Caller, command: SortieAddCommand): Promise<MissionAnswer> {
    return this.#commands.run("sortie_add", caller, (tx, context) => addSorties(tx, context, command));
  }

  updateSortie(caller: Caller, command: SortieUpdateCommand): Promise<MissionAnswer> {
    return this.#commands.run("sortie_update", caller, (tx, context) => updateSortie(tx, context, command));
  }

  acquireLock(caller: Caller, command: LockAcquireCommand): Promise<LockAnswer> {
    return this.#commands.run("lock_acquire", caller, (tx, context) => acquireLock(tx, context, command));
  }

  renewLock(caller: Caller, command: LockRenewCommand): Promise<LockAnswer> {
    return this.#commands.run("lock_renew", caller, (tx, context) => renewLock(tx, context, command));
  }

  releaseLock(caller: Caller, command: LockReleaseCommand): Promise<LockAnswer> {
    return this.#commands.run("lock_release", caller, (tx, context) => releaseLock(tx, context, command));
  }

  sendMessage(caller: Caller, command: MessageSendCommand): Promise<MessageAnswer> {
    return this.#commands.run("message_send", caller, (tx, context) => sendMessage(tx, context, command));
  }

  acknowledgeMessage(caller: Caller, command: MessageAckCommand): Promise<MessageAnswer> {
    return this.#commands.run("message_ack", caller, (tx, context) =>
      acknowledgeMessage(tx, context, command),
    );
  }

  cancelMessage(caller: Caller, command: MessageCancelCommand): Promise<MessageAnswer> {
    return this.#commands.run("message_cancel", caller, (tx, context) => cancelMessage(tx, context, command));
  }

  subscribeMailbox(caller: Caller, command: MailboxSubscribeCommand): Promise<MailboxAnswer> {
    return this.#commands.run("mailbox_subscribe", caller, (tx, context) =>
      subscribeMailbox(tx, context, command),
    );
  }

  /** Throws NOT_FOUND without such a mission. */
  mailbox(tenant: string, caller: string, query: QueryParams<"mailbox">): Promise<MailboxPage> {
    return this.#transactions.read("mailbox", (reader) => readOwnMailbox(reader, tenant, caller, query));
  }

  /** Throws NOT_FOUND without such a mission. */
  messages(tenant: string, caller: string, query: QueryParams<"messages">): Promise<MessagePage> {
    return this.#transactions.read("messages", (reader) => listMessages(reader, tenant, caller, query));
  }

  /** Throws NOT_FOUND without such a mission. */
  locks(tenant: string, query: QueryParams<"locks">): Promise<LockList> {
    return this.#transactions.read("locks", (reader) => listLocks(reader, tenant, query, this.#now()));
  }

  /** The records as they are on disk. Throws NOT_FOUND without such a task. */
  records(tenant: string, query: QueryParams<"mission_records">): Promise<MissionRecordPage> {
    return this.#transactions.read("mission_records", (reader) => readExportedRecords(reader, tenant, query));
  }

  list(tenant: string, query: QueryParams<"missions">): Promise<MissionPage> {
    return this.#transactions.read("missions", (reader) => listMissions(reader, tenant, query));
  }

  /** Throws NOT_FOUND. */
  find(tenant: string, caller: string, query: QueryParams<"mission">): Promise<Mission> {
    return this.#transactions.read("mission", (reader) => findMission(reader, tenant, caller, query));
  }

  /** null: the specialist has no sortie. Throws NOT_FOUND without such a mission or checkpoint. */
  recoveryContext(tenant: string, query: QueryParams<"recovery_context">): Promise<RecoveryContext | null> {
    return this.#transactions.read("recovery_context", (reader) =>
      readRecoveryContext(reader, tenant, query, this.#now()),
    );
  }

  async previewResumption(
    tenant: string,
    caller: string,
    query: QueryParams<"resume_preview">,
  ): Promise<ResumePreview> {
    const copied = await this.#restoreCopies(tenant, query.mission_id, query.checkpoint_id);
    const preview = await this.#transactions.read("resume_preview", (reader) =>
      previewResumption(reader, tenant, caller, query, this.#now()),
    );
    const { mission_id, checkpoint_id } = preview;
    return { ...preview, ...copied, ...(await this.#missingCopies(tenant, mission_id, checkpoint_id)) };
  }

  /** Corrupt and lost checkpoints are restored from their copies first, and those without a copy are quarantined. */
  async #restoreCopies(
    tenant: string,
    task: string,
    named: string | undefined,
  ): Promise<{ restored_copies?: string[] }> {
    const { restored } = await this.#findings.reread(
      () => this.#transactions.read("find_snapshot", (reader) => unsoundBefore(reader, tenant, task, named)),
      (corrupt) => ({ tenant, task, corrupt }),
    );
    return restored.length === 0
      ? {}
      : { restored_copies: restored.map(({ checkpoint_id }) => checkpoint_id) };
  }

  /** Seed 002, "checkpoint file missing": the store is used, with a warning. */
  async #missingCopies(tenant: string, task: string, id: string): Promise<{ missing_copies?: string[] }> {
    return (await this.#findings.lacksCopy(tenant, task, id)) ? { missing_copies: [id] } : {};
  }

  /** Throws NOT_FOUND without such a mission. */
  sorties(tenant: string, query: QueryParams<"sorties">): Promise<SortiePage> {
    return this.#transactions.read("sorties", (reader) => listSorties(reader, tenant, query));
  }
}
