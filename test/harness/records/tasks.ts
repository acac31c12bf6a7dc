/** Tasks brought to the state where a test begins, over a store of their own with a clock that moves only when a test sets it. */
import { comparable, replay } from "../../../shared/lifecycle/replay.ts";
import type { CommittedAnswer } from "../../../shared/protocol/answers.ts";
import type { Phase } from "../../../shared/protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../../shared/protocol/checkpoint-pages.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import { DEFAULT_POLICIES, type Policies } from "../../../shared/protocol/policy.ts";
import type { Recovery } from "../../../shared/protocol/recovery-record.ts";
import type { Task } from "../../../shared/protocol/task.ts";
import { readTask } from "../../../shared/records/checkpoint/lookup.ts";
import { type DraftSweepStep, stepDraftSweep } from "../../../shared/records/drafts/superseded-drafts.ts";
import { parseHandoffDue, parseRecoveryDue } from "../../../shared/records/kv/due-index.ts";
import { endingName, systemKeys, tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { type OutboxEntry, readOutbox } from "../../../shared/records/outbox/outbox.ts";
import type { Sighting } from "../../../shared/records/recovery/observations.ts";
import type { NotedFailure, ObservedTask } from "../../../shared/records/recovery-actions.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ShredSweep } from "../../../shared/records/retention/shred/shred-sweep.ts";
import {
  type RetentionStep,
  type RetentionSweep,
  stepRetention,
} from "../../../shared/records/retention/sweep.ts";
import type { KeyRange, Store } from "../../../shared/store/store.ts";
import { acknowledge, handoffInput, offer } from "./handoffs.ts";
import {
  create,
  type Engine,
  input,
  openTestRecords,
  type SendOptions,
  send,
  type TestRecords,
} from "./records.ts";
import { advanceRecovery, items, noteFailure } from "./recoveries.ts";

export type AuditRecord = Record<string, unknown>;

const reading = { label: "test", deadlineMs: 5_000 } as const;
const OUTBOX_PARTITIONS = 8;
const ROWS_MAX = 10_000;

export class TestTasks {
  /** The time of the repository, in milliseconds. */
  now = Date.now();
  readonly #records: TestRecords;
  readonly #policies: Policies;
  #tasks = 0;

  static async open(engine: Engine, policies?: Policies): Promise<TestTasks> {
    let tasks: TestTasks | undefined;
    const records = await openTestRecords(engine, () => tasks?.now ?? Date.now(), policies);
    tasks = new TestTasks(records, policies);
    return tasks;
  }

  constructor(records: TestRecords, policies: Policies = DEFAULT_POLICIES) {
    this.#records = records;
    this.#policies = policies;
  }

  get repository(): CheckpointRepository {
    return this.#records.repository;
  }

  get store(): Store {
    return this.#records.store;
  }

  get corrupt(): readonly CorruptCheckpoint[] {
    return this.#records.corrupt;
  }

  close(): Promise<void> {
    return this.#records.close();
  }

  /** The id of a new task. */
  fresh(): string {
    this.#tasks += 1;
    return `task-${this.#tasks}`;
  }

  head(task: string): Promise<Task> {
    return this.repository.task("default", task);
  }

  /** The stored head, and the one that the audit trail leads to. */
  async replayed(task: string): Promise<{ stored: object; replayed: object | null }> {
    const stored = await this.store.read(reading, (reader) => readTask(reader, "default", task));
    const replayed = replay(await this.trail(task));
    if (stored === null) throw new Error("there is no such task");
    return { stored: comparable(stored), replayed: replayed && comparable(replayed) };
  }

  handoff(id: string): Promise<Handoff> {
    return this.repository.handoff("default", { handoff_id: id });
  }

  /** The task's recovery, with the block that it ended in. */
  async recovery(task: string): Promise<Recovery & Pick<Task, "blocked">> {
    const { recovery, blocked } = await this.head(task);
    if (recovery === null) throw new Error("no agent of the task has failed yet");
    return { ...recovery, blocked };
  }

  async trail(task: string): Promise<AuditRecord[]> {
    const { entries } = await this.repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
    return entries.map(({ entry }) => JSON.parse(entry) as AuditRecord);
  }

  async outbox(task: string): Promise<OutboxEntry[]> {
    const partitions = await this.store.read(reading, (reader) =>
      Promise.all(
        Array.from({ length: OUTBOX_PARTITIONS }, (_, partition) => readOutbox(reader, partition, ROWS_MAX)),
      ),
    );
    return partitions.flatMap(({ entries }) => entries).filter(({ event }) => event.subject === task);
  }

  /** The types of a task's events. */
  async events(task: string): Promise<string[]> {
    return (await this.outbox(task)).map(({ event }) => event.type);
  }

  /** One step of the writer's sweep; by default every superseded draft is due. */
  sweepDrafts(afterMs = Number.NEGATIVE_INFINITY, store = this.store): Promise<DraftSweepStep> {
    const { incarnation } = this.#records.format;
    const policies = this.#policies;
    return stepDraftSweep({ store, incarnation, service: "writer", now: () => this.now, afterMs, policies });
  }

  /** Makes steps until no superseded draft is due; returns the number of finalized drafts. */
  async sweepAllDrafts(afterMs = Number.NEGATIVE_INFINITY): Promise<number> {
    for (let finalized = 0; ; ) {
      const step = await this.sweepDrafts(afterMs);
      if (step.skipped.length > 0) throw new Error("a draft was skipped", { cause: step.skipped[0]?.error });
      finalized += step.finalized;
      if (!step.more) return finalized;
    }
  }

  /** Of a sweep of the writer. */
  sweepParts(): ShredSweep {
    const { store } = this;
    const { incarnation } = this.#records.format;
    const [now, policies] = [() => this.now, this.#policies];
    return {
      store,
      incarnation,
      service: "writer",
      policies,
      now,
      guard: async () => {},
      eraseMessages: async () => {},
    };
  }

  /** One step of the writer's sweep of retention. */
  stepRetention(sweep: Partial<RetentionSweep> = {}): Promise<RetentionStep> {
    return stepRetention({ ...this.sweepParts(), ...sweep });
  }

  /** Makes one complete pass of retention; returns the number of removed checkpoints. */
  async retain(sweep: Partial<RetentionSweep> = {}): Promise<number> {
    for (let removed = 0; ; ) {
      const step = await this.stepRetention(sweep);
      if (step.failed.length > 0) throw new Error("a task failed", { cause: step.failed[0]?.error });
      removed += step.removed;
      if (step.ended) return removed;
    }
  }

  /** All entries of the index of due handoffs. */
  async due(): Promise<{ id: string; dueMs: number }[]> {
    return (await this.#keys(systemKeys.handoffsDueBefore(Number.MAX_SAFE_INTEGER))).map(parseHandoffDue);
  }

  /** All entries of the index of due recoveries. */
  async dueRecoveries(): Promise<{ task: string; key: string }[]> {
    const keys = await this.#keys(systemKeys.recoveriesDueBefore(Number.MAX_SAFE_INTEGER));
    return keys.map((key) => ({ task: parseRecoveryDue(key).task, key: Buffer.from(key).toString("hex") }));
  }

  /** The tasks in the index of recovering tasks, default tenant. */
  async recovering(): Promise<string[]> {
    return (await this.#keys(tenantKeys("default").recoveringTasks())).map(endingName);
  }

  async #keys(range: KeyRange): Promise<Uint8Array[]> {
    const { rows } = await this.store.read(reading, (reader) => reader.getRange(range, { limit: ROWS_MAX }));
    return rows.map(({ key }) => key);
  }

  /** A task that `giver` owns and hands off by its checkpoint. */
  async requested(): Promise<{ task: string; id: string }> {
    const task = this.fresh();
    await send(this.repository, "take", {}, { task, agent: "giver" });
    const by = { task, agent: "giver", fence: 1 };
    const { checkpoint_id: id } = await create(this.repository, { ...by, checkpoint: handoffInput() });
    return { task, id };
  }

  async offered(): Promise<{ task: string; id: string; offer: Handoff }> {
    const { task, id } = await this.requested();
    return { task, id, offer: await offer(this.repository, id) };
  }

  /** A task that `taker` has accepted, without a checkpoint of `taker` yet. */
  async accepted(): Promise<{ task: string; id: string }> {
    const { task, id, offer: made } = await this.offered();
    await acknowledge(this.repository, made, { agent: "taker" });
    return { task, id };
  }

  /** Writes a checkpoint with `completed` items under the task's fence. */
  async write(
    task: string,
    agent: string,
    {
      completed = 1,
      phase = "implementing" as Phase,
      ...by
    }: SendOptions & { completed?: number; phase?: Phase },
  ): Promise<CommittedAnswer> {
    const { fence } = await this.head(task);
    const checkpoint = input({ completed_items: items(completed), phase });
    return create(this.repository, { task, agent, fence, checkpoint, ...by });
  }

  /** A task that `agent-1` owns, with checkpoints of which each has one more completed item. */
  async owned(checkpoints = 1): Promise<string> {
    const task = this.fresh();
    await send(this.repository, "take", {}, { task });
    for (let n = 1; n <= checkpoints; n += 1) await this.write(task, "agent-1", { completed: n });
    return task;
  }

  fail(task: string, changes: Partial<Sighting> = {}): Promise<NotedFailure> {
    return noteFailure(this.repository, task, changes);
  }

  /** Moves the clock to the moment at which the recovery is due, and advances it. */
  async attempt(task: string): Promise<ObservedTask> {
    const { due_at } = await this.recovery(task);
    this.now = Math.max(this.now, Date.parse(due_at ?? ""));
    return advanceRecovery(this.repository, task);
  }

  /** Offers the open handoff, which `agent` accepts. */
  async takeOver(task: string, agent: string): Promise<Handoff> {
    const { handoff_id } = await this.head(task);
    const offered = await offer(this.repository, handoff_id ?? "none is open");
    await acknowledge(this.repository, offered, { agent });
    return this.handoff(offered.handoff_id);
  }

  /** Lets the newest offer of a handoff expire and escalates it, as a coordinator does. */
  async escalate(id: string, details: string | null = null): Promise<void> {
    const { attempt, deadline } = await this.handoff(id);
    this.now = Math.max(this.now, Date.parse(deadline ?? ""));
    const failure = { attempt, reason: "no_agent", details } as const;
    const { applied } = await this.repository.handoffActions.escalateHandoff("default", id, failure);
    if (!applied) throw new Error("the handoff was not escalated");
  }

  /** A task whose owner failed, with an open attempt. */
  async attempted(checkpoints = 1): Promise<string> {
    const task = await this.owned(checkpoints);
    await this.fail(task);
    await this.attempt(task);
    return task;
  }

  /** A task that `agent-2` has resumed, with as many completed items as before. */
  async resumed(checkpoints = 1): Promise<string> {
    const task = await this.attempted(checkpoints);
    await this.takeOver(task, "agent-2");
    await this.write(task, "agent-2", { completed: checkpoints });
    return task;
  }

  /** A task that is blocked because its budget is spent: its agents failed without progress. */
  async spent(checkpoints = 2): Promise<string> {
    const task = await this.owned(checkpoints);
    for (let n = 2; ; n += 1) {
      const noted = await this.fail(task);
      if (!noted.applied || noted.head.recovery?.state === "blocked") return task;
      await this.attempt(task);
      await this.takeOver(task, `agent-${n}`);
      await this.write(task, `agent-${n}`, { completed: checkpoints });
    }
  }
}
