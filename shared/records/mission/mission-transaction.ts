/**
 * The transaction of a command of a mission. Each of its transitions writes records of the mission, and its audit
 * entry states their hashes. A checkpoint of the mission is written in the same transaction, so that a milestone is
 * reached and recorded at once, and once.
 */
import { checkpointCreated, settleEnd } from "../../lifecycle/checkpoints.ts";
import { Decision } from "../../lifecycle/decision.ts";
import { isImporting, refuseImporting } from "../../lifecycle/import/import.ts";
import { type LockChange, LockChanges, type LockTable, lockSnapshot } from "../../lifecycle/mission/locks.ts";
import { type MailboxChange, MailboxChanges, messageSnapshot } from "../../lifecycle/mission/mailbox.ts";
import { FINAL_STATUS_OF, type MissionEnd, type MissionRecord } from "../../lifecycle/mission/mission.ts";
import { lapseOf, lastActivityOf } from "../../lifecycle/mission/silence.ts";
import { type SnapshotTrigger, snapshotCheckpoint } from "../../lifecycle/mission/snapshot.ts";
import type { SortieRecord } from "../../lifecycle/mission/sortie.ts";
import { requireFence } from "../../lifecycle/ownership.ts";
import { refuseShredding } from "../../lifecycle/retention/shred.ts";
import { isShredding } from "../../lifecycle/retention/shred-rules.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { AuditFacts, AuditOp, EventFact } from "../../lifecycle/transition.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { MissionSnapshot } from "../../protocol/mission.ts";
import { isMailboxEvent } from "../../protocol/mission-messages.ts";
import { parsePrincipal } from "../../protocol/principal.ts";
import type { Tx } from "../../store/store.ts";
import { appendCheckpoint, finalizeHandedOver, versionAnswer } from "../checkpoint/create.ts";
import { finalizeDraft } from "../checkpoint/finalize.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  circumstancesOf,
  complete,
  type Replay,
  readNewestHead,
} from "../task/command-transaction.ts";
import type { RememberedAnswer, RememberedCheckpoint } from "../task/idempotency.ts";
import { writeTransitions } from "../task/transitions.ts";
import { statedChange } from "./lock-facts.ts";
import { readMailbox, readMessages, readOpenMessages } from "./messages/mailbox-records.ts";
import { statedMailboxChange } from "./messages/message-facts.ts";
import { namedMessages, type WrittenMessages, writtenMessages } from "./messages/written-messages.ts";
import { indexLocks, indexMailbox } from "./mission-due.ts";
import { readLocks, readMission, readSorties } from "./mission-records.ts";
import { LOCKS_NAME, MISSION_NAME, type NamedRecord, sortieName, writeRecords } from "./sealed-record.ts";

export interface WrittenSnapshot {
  readonly answer: RememberedCheckpoint;
  readonly fleet: MissionSnapshot;
}

export interface WrittenRecords extends WrittenMessages {
  readonly mission?: MissionRecord;
  readonly sorties?: readonly SortieRecord[];
  readonly locks?: LockTable;
}

export class MissionTransaction {
  readonly tx: Tx;
  readonly context: CommandContext;
  readonly #begun: Begun;
  readonly #decision: Decision;
  readonly #isService: boolean;
  #mission: MissionRecord | null;
  #locks: LockChanges | null = null;
  /** The table as it was found. */
  #locksBefore: LockTable | null = null;
  #mailbox: MailboxChanges | null = null;

  private constructor(
    tx: Tx,
    context: CommandContext,
    begun: Begun,
    decision: Decision,
    mission: MissionRecord | null,
    isService = false,
  ) {
    this.tx = tx;
    this.context = context;
    this.#begun = begun;
    this.#decision = decision;
    this.#mission = mission;
    this.#isService = isService;
  }

  /** `specialist`: the command needs no fence. The caller of this method says what such an agent may do. */
  static async begin(
    tx: Tx,
    context: CommandContext,
    { specialist = false } = {},
  ): Promise<MissionTransaction | Replay> {
    const begun = await begin(tx, context, () => [], { supersedes: specialist });
    if ("replay" in begun) return begun;
    if (begun.head !== null && isImporting(begun.head)) throw refuseImporting(begun.head).error;
    if (begun.head !== null && isShredding(begun.head)) throw refuseShredding(begun.head).error;
    const handoff = await readOpenHandoff(tx, begun.keys, begun.head);
    const decision = new Decision(circumstancesOf(context), { task: begun.head, handoff });
    const mission = await readMission(tx, begun.keys, context.actor.task);
    return new MissionTransaction(tx, context, begun, decision, mission);
  }

  /** For a service, which acts on what is due. null: there is no such mission, or it is being imported. */
  static async observe(tx: Tx, context: CommandContext): Promise<MissionTransaction | null> {
    const { tenant, task } = context.actor;
    const keys = tenantKeys(tenant);
    const mission = await readMission(tx, keys, task);
    const head = await readNewestHead(tx, keys, task);
    if (mission === null || head === null || isImporting(head) || isShredding(head)) return null;
    const handoff = await readOpenHandoff(tx, keys, head);
    const decision = new Decision(circumstancesOf(context), { task: head, handoff });
    return new MissionTransaction(tx, context, { keys, head, values: [] }, decision, mission, true);
  }

  get keys(): TenantKeys {
    return this.#begun.keys;
  }

  /** The task as it was found; null: it did not exist. */
  get head(): TaskRecord | null {
    return this.#begun.head;
  }

  get at(): string {
    return this.#decision.at;
  }

  /** The owner of the task, or the caller if it has none. */
  get coordinator(): string {
    return this.#begun.head?.owner ?? this.context.actor.agent;
  }

  /** The owner of the task, or else the agent that started the mission. */
  get director(): string {
    return this.#begun.head?.owner ?? this.mission.created_by;
  }

  /** Whether the caller is the {@link director} or a person. */
  get directs(): boolean {
    const { agent } = this.context.actor;
    return agent === this.director || parsePrincipal(agent)?.kind === "human";
  }

  /** The mission as it is now. Throws NOT_FOUND. */
  get mission(): MissionRecord {
    if (this.#mission !== null) return this.#mission;
    throw new FleetError("NOT_FOUND", "there is no such mission", {
      details: { mission_id: this.context.actor.task },
    });
  }

  /** Throws CONFLICT if the mission exists, or its task has ended. */
  requireNew(): void {
    const { head } = this.#begun;
    if (this.#mission === null && head?.work.kind !== "ended") return;
    throw new FleetError("CONFLICT", this.#mission === null ? "the task has ended" : "the mission exists", {
      details: { mission_id: this.context.actor.task },
    });
  }

  /** Whether the task exists without this command. */
  get isKnownTask(): boolean {
    return this.#begun.head !== null;
  }

  /** Throws FENCED unless the caller acts for the coordinator, or a sortie is assigned to it. */
  async requireParticipant(): Promise<void> {
    if (!(await this.specialists()).has(this.context.actor.agent)) this.requireCoordinator();
  }

  /** The agents to which sorties are assigned. */
  async specialists(): Promise<ReadonlySet<string>> {
    const sorties = await readSorties(this.tx, this.keys, this.context.actor.task);
    return new Set(sorties.flatMap(({ assigned_to }) => assigned_to ?? []));
  }

  /** Like {@link requireParticipant}, and for every person. */
  async requireCorrespondent(): Promise<void> {
    if (parsePrincipal(this.context.actor.agent)?.kind !== "human") await this.requireParticipant();
  }

  /** Throws FENCED unless the caller acts for the coordinator. */
  requireCoordinator(): void {
    requireFence(this.#begun.head, this.context.fence, false);
  }

  /** One transition, with the records that it writes. */
  add(op: AuditOp, event: EventFact, facts: AuditFacts, written: WrittenRecords): void {
    const seq = this.#auditSeq + 1;
    const records = writeRecords(this.tx, this.context, this.#named(written), seq);
    this.#decision.add(op, { facts: { ...facts, ...(records.length > 0 && { records }) }, event });
    if (written.mission !== undefined) this.#mission = written.mission;
  }

  /** The locks, without those whose time is over. {@link writeLocks} makes the changes. */
  async locks(): Promise<LockChanges> {
    if (this.#locks !== null) return this.#locks;
    const { task } = this.context.actor;
    const before = await readLocks(this.tx, this.keys, task);
    const changes = new LockChanges(before, { nowMs: this.context.nowMs, firstSeq: this.#auditSeq + 1 });
    this.#locksBefore = before;
    this.#locks = changes.expire();
    return changes;
  }

  /**
   * One transition for each change of the locks. No other transition may come between {@link locks} and this.
   * The locks of an agent are its activity, so the mission is not silent; what a service ends is none.
   */
  writeLocks(): readonly LockChange[] {
    const changes = this.#locks?.changes ?? [];
    for (const [i, change] of changes.entries()) {
      const { event, facts } = statedChange(this.context.actor.task, change);
      const isActivity =
        i === changes.length - 1 && !this.#isService && this.mission.last_activity_at < this.at;
      const mission = isActivity ? { ...this.mission, last_activity_at: this.at } : undefined;
      this.add(change.op, event, facts, { locks: change.after, ...(mission !== undefined && { mission }) });
    }
    const { tenant, task } = this.context.actor;
    const before = this.#locksBefore;
    const after = changes.at(-1)?.after;
    if (before !== null && after !== undefined)
      indexLocks(this.tx, this.keys, { tenant, task }, { before, after });
    this.#locks = null;
    return changes;
  }

  /** The mailbox. {@link writeMailbox} makes the changes. */
  async mailbox(): Promise<MailboxChanges> {
    if (this.#mailbox !== null) return this.#mailbox;
    const { context, tx, keys } = this;
    this.#mailbox = new MailboxChanges(await readMailbox(tx, keys, context.actor.task), context.nowMs);
    return this.#mailbox;
  }

  /** One transition for each change of the mailbox. The last one states the mailbox itself, which would fill the transaction otherwise. */
  async writeMailbox(): Promise<readonly MailboxChange[]> {
    const { tx, keys } = this;
    const { tenant, task } = this.context.actor;
    const changes = this.#mailbox?.changes ?? [];
    const after = changes.at(-1)?.after;
    this.#mailbox = null;
    if (after === undefined) return [];
    const before = await readMailbox(tx, keys, task);
    for (const [i, change] of changes.entries()) {
      const { event, facts } = statedMailboxChange(task, change);
      const mailbox = i === changes.length - 1 ? { mailbox: after } : {};
      this.add(change.op, event, facts, { ...mailbox, ...writtenMessages(change) });
    }
    indexMailbox(tx, { tenant, task }, { before, after });
    return changes;
  }

  /** Writes the snapshot of the mission as it is now as a checkpoint, under the id of the command. */
  async checkpoint(
    trigger: SnapshotTrigger,
    { blockers = [] as readonly string[], end = null as MissionEnd | null } = {},
  ): Promise<WrittenSnapshot> {
    const { tx, context, keys } = this;
    const decision = this.#decision;
    const { commandId: id, nowMs, actor } = context;
    const sorties = await readSorties(tx, keys, actor.task);
    const { locks } = await readLocks(tx, keys, actor.task);
    const held = locks.filter(({ expires_at }) => Date.parse(expires_at) > nowMs).map(lockSnapshot);
    const messages = (await readOpenMessages(tx, keys, actor.task)).map(messageSnapshot);
    const whole = { mission: this.mission, sorties, locks: held, messages, blockers, nowMs };
    const draft = snapshotCheckpoint(whole, trigger, end === null ? "implementing" : "complete");
    const fleet = draft.fleet as MissionSnapshot;
    const { handoff: open, task: head } = decision;
    const command = { command_id: id, checkpoint: draft };
    const { checkpoint, sealed } = await appendCheckpoint(tx, context, { keys, head }, open, command);
    checkpointCreated(decision, head, {
      checkpoint,
      hash: sealed.hash,
      options: undefined,
      fence: context.fence,
      isOfSpecialist: this.#isService || (head.owner !== null && context.fence === undefined),
    });
    await finalizeHandedOver(tx, context, keys, decision, open);
    const named = { checkpoint_id: id, mission_id: actor.task, trigger: trigger.reason };
    const { progress_percent, active_locks, pending_messages } = fleet;
    const counts = {
      sortie_count: sorties.length,
      lock_count: active_locks.length,
      message_count: pending_messages.length,
    };
    const checkpointed = {
      type: "fleet_checkpointed",
      data: { ...named, progress_percent, ...counts },
    } as const;
    decision.add("mission_checkpoint", { facts: { snapshot: id, progress_percent }, event: checkpointed });
    const storage_locations = context.isMirrored ? ["store" as const, "file" as const] : ["store" as const];
    const created = { ...named, storage_locations };
    decision.add("mission_record", {
      facts: { snapshot: id },
      event: { type: "checkpoint_created", data: created },
    });
    if (end !== null) {
      const before = decision.task;
      await finalizeDraft(tx, context, keys, decision, { id, status: FINAL_STATUS_OF[end] });
      settleEnd(decision, before, end);
    }
    return { answer: versionAnswer(checkpoint, sealed), fleet };
  }

  /** An agent of the mission lost its context now, so the mission can be resumed without a wait for its silence. */
  markCompacted({ answer, fleet }: WrittenSnapshot): void {
    const { mission, at } = this;
    if (mission.status !== "in_progress") return;
    const { checkpoint_id: id } = answer;
    const point = { id, timestamp: at, trigger: "compaction", progress_percent: fleet.progress_percent };
    const last = lastActivityOf(mission, this.#begun.head);
    const lapse = lapseOf(mission, { last, until: at, point, nowMs: this.context.nowMs });
    this.add("mission_lapse", lapse.compacted, { since: lapse.since }, { mission: lapse.mission });
    if (lapse.recoverable === null) return;
    const { event, snapshot } = lapse.recoverable;
    this.#decision.add("mission_recoverable", { facts: { snapshot }, event });
  }

  async complete<A extends RememberedAnswer>(answer: A): Promise<A> {
    await this.#announce();
    const { transitions } = this.#decision;
    return complete(this.tx, this.context, this.#begun, { transitions, answer });
  }

  /** The transitions of a service, which gets no answer. */
  async finish(): Promise<void> {
    await this.#announce();
    const { tx, keys, context } = this;
    const { actor, nowMs, incarnation, traceparent } = context;
    const { transitions } = this.#decision;
    if (transitions.length === 0) return;
    const { tenant, task, agent } = actor;
    const by = { id: agent, type: "service" } as const;
    const author = { tenant, task, actor: by, commandId: null, nowMs, incarnation, traceparent };
    writeTransitions(tx, keys, author, this.#begun.head, transitions);
  }

  /** The events of this transaction go to their subscribers in this transaction, so none is lost. */
  async #announce(): Promise<void> {
    const begun = (this.#begun.head?.audit_seq ?? 0) + 1;
    const { tenant, task } = this.context.actor;
    const events = this.#decision.transitions.flatMap(({ event: { type, data } }, i) =>
      isMailboxEvent(type) ? [{ type, body: { id: `${tenant}/${task}/${begun + i}`, type, data } }] : [],
    );
    if (events.length === 0) return;
    const mailbox = await this.mailbox();
    for (const { type, body } of events) {
      await this.#makeRoomForEvent(mailbox);
      mailbox.announce(type, JSON.stringify(body));
    }
    await this.writeMailbox();
  }

  /** The subscription of an agent that has not acknowledged many events ends. */
  async #makeRoomForEvent(mailbox: MailboxChanges): Promise<void> {
    const oldest = mailbox.eventInTheWay;
    if (oldest === null || mailbox.mailbox.subscribers.length === 0) return;
    const [message = null] = await readMessages(this.tx, this.keys, this.context.actor.task, [oldest.number]);
    if (message !== null) mailbox.fail(message);
  }

  get #auditSeq(): number {
    return (this.#begun.head?.audit_seq ?? 0) + this.#decision.transitions.length;
  }

  #named({ mission, sorties = [], locks, ...rest }: WrittenRecords): NamedRecord[] {
    const { keys } = this;
    const { task } = this.context.actor;
    return [
      ...(mission === undefined ? [] : [{ name: MISSION_NAME, key: keys.mission(task), value: mission }]),
      ...sorties.map((sortie) => ({
        name: sortieName(sortie.sortie_id),
        key: keys.sortie(task, sortie.sortie_id),
        value: sortie,
      })),
      ...(locks === undefined ? [] : [{ name: LOCKS_NAME, key: keys.missionLocks(task), value: locks }]),
      ...namedMessages(keys, task, rest),
    ];
  }
}
