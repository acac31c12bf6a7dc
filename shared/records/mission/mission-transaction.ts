/**
 * The transaction of a command of a mission. Each of its transitions writes records of the mission, and its audit
 * entry states their hashes. A checkpoint of the mission is written in the same transaction, so that a milestone is
 * reached and recorded at once, and once.
 */
import { checkpointCreated, settleEnd } from "../../lifecycle/checkpoints.ts";
import { Decision } from "../../lifecycle/decision.ts";
import { FINAL_STATUS_OF, type MissionEnd, type MissionRecord } from "../../lifecycle/mission/mission.ts";
import { type SnapshotTrigger, snapshotCheckpoint } from "../../lifecycle/mission/snapshot.ts";
import type { SortieRecord } from "../../lifecycle/mission/sortie.ts";
import { requireFence } from "../../lifecycle/ownership.ts";
import type { AuditFacts, AuditOp, EventFact } from "../../lifecycle/transition.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { MissionSnapshot } from "../../protocol/mission.ts";
import type { Tx } from "../../store/store.ts";
import { appendCheckpoint, finalizeHandedOver, versionAnswer } from "../checkpoint/create.ts";
import { finalizeDraft } from "../checkpoint/finalize.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  circumstancesOf,
  complete,
  type Replay,
} from "../task/command-transaction.ts";
import type { RememberedAnswer, RememberedCheckpoint } from "../task/idempotency.ts";
import { readMission, readSorties } from "./mission-records.ts";
import {
  encodeRecord,
  MISSION_NAME,
  type NamedRecord,
  recordHash,
  sortieName,
  statedRecord,
} from "./sealed-record.ts";

export interface WrittenSnapshot {
  readonly answer: RememberedCheckpoint;
  readonly fleet: MissionSnapshot;
}

export class MissionTransaction {
  readonly tx: Tx;
  readonly context: CommandContext;
  readonly #begun: Begun;
  readonly #decision: Decision;
  #mission: MissionRecord | null;

  private constructor(
    tx: Tx,
    context: CommandContext,
    begun: Begun,
    decision: Decision,
    mission: MissionRecord | null,
  ) {
    this.tx = tx;
    this.context = context;
    this.#begun = begun;
    this.#decision = decision;
    this.#mission = mission;
  }

  /** `specialist`: the command needs no fence. The caller of this method says what such an agent may do. */
  static async begin(
    tx: Tx,
    context: CommandContext,
    { specialist = false } = {},
  ): Promise<MissionTransaction | Replay> {
    const begun = await begin(tx, context, () => [], { supersedes: specialist });
    if ("replay" in begun) return begun;
    const handoff = await readOpenHandoff(tx, begun.keys, begun.head);
    const decision = new Decision(circumstancesOf(context), { task: begun.head, handoff });
    const mission = await readMission(tx, begun.keys, context.actor.task);
    return new MissionTransaction(tx, context, begun, decision, mission);
  }

  get keys(): TenantKeys {
    return this.#begun.keys;
  }

  get at(): string {
    return this.#decision.at;
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
    const { agent, task } = this.context.actor;
    const sorties = await readSorties(this.tx, this.keys, task);
    if (!sorties.some(({ assigned_to }) => assigned_to === agent)) this.requireCoordinator();
  }

  /** Throws FENCED unless the caller acts for the coordinator. */
  requireCoordinator(): void {
    requireFence(this.#begun.head, this.context.fence, false);
  }

  /** One transition, with the records that it writes. */
  add(
    op: AuditOp,
    event: EventFact,
    facts: AuditFacts,
    written: { readonly mission?: MissionRecord; readonly sorties?: readonly SortieRecord[] },
  ): void {
    const seq = this.#auditSeq + 1;
    const records = this.#named(written).map(({ name, key, value }) => {
      const bytes = encodeRecord(value, seq);
      this.tx.set(key, bytes);
      return statedRecord(recordHash(bytes), name);
    });
    this.#decision.add(op, { facts: { ...facts, records }, event });
    if (written.mission !== undefined) this.#mission = written.mission;
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
    const whole = { mission: this.mission, sorties, locks: [], messages: [], blockers, nowMs };
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
      isOfSpecialist: head.owner !== null && context.fence === undefined,
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
    const created = { ...named, storage_locations: ["store" as const] };
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

  complete<A extends RememberedAnswer>(answer: A): Promise<A> {
    const { transitions } = this.#decision;
    return complete(this.tx, this.context, this.#begun, { transitions, answer });
  }

  get #auditSeq(): number {
    return (this.#begun.head?.audit_seq ?? 0) + this.#decision.transitions.length;
  }

  #named({
    mission,
    sorties = [],
  }: {
    mission?: MissionRecord;
    sorties?: readonly SortieRecord[];
  }): NamedRecord[] {
    const { keys } = this;
    const { task } = this.context.actor;
    return [
      ...(mission === undefined ? [] : [{ name: MISSION_NAME, key: keys.mission(task), value: mission }]),
      ...sorties.map((sortie) => ({
        name: sortieName(sortie.sortie_id),
        key: keys.sortie(task, sortie.sortie_id),
        value: sortie,
      })),
    ];
  }
}
