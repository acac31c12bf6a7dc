/** Handoffs for tests: tasks brought to where a test begins, by the same calls that agents and coordinators make. */
import type { HandoffAnswer } from "../../../shared/protocol/answers.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import type { Task } from "../../../shared/protocol/task.ts";
import type { Offering } from "../../../shared/records/handoff/handoff-transitions.ts";
import { parseHandoffDue, systemKeys } from "../../../shared/records/kv/keyspace.ts";
import { type OutboxEntry, readOutbox } from "../../../shared/records/outbox/outbox.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { type Bench, create, type Engine, input, openBench, type Sending, send } from "./records.ts";

export type Entry = Record<string, unknown>;

export const handingOff = () => input({ phase: "handoff" });

export async function refusal(promise: Promise<unknown>): Promise<FleetError> {
  const error = await promise.then(
    () => new Error("it was accepted"),
    (reason: unknown) => reason,
  );
  if (error instanceof FleetError) return error;
  throw error;
}

export function offering(handoff: Handoff, changes: Partial<Offering> = {}): Offering {
  return {
    attempt: handoff.attempt + 1,
    maxAttempts: 3,
    checkpoint: { id: handoff.checkpoint_id, version: 1, hash: handoff.checkpoint_hash },
    prompt: "Go on where it says.",
    promptStyle: "standard",
    promptTokens: 6,
    deadlineMs: 60_000,
    firstCheckpointMs: 900_000,
    ...changes,
  };
}

/** Asks for a handoff of the task's latest checkpoint, to `qa`. */
export function initiate(
  repository: CheckpointRepository,
  by: Sending & { body?: Record<string, unknown> },
): Promise<HandoffAnswer> {
  const { body = { to_agent_type: "qa" }, ...sending } = by;
  return send(repository, "handoff", body, sending);
}

/** From requested to offered, as a coordinator does it. */
export async function offer(
  repository: CheckpointRepository,
  id: string,
  changes: Partial<Offering> = {},
  tenant = "default",
): Promise<Handoff> {
  const { handoff } = await repository.coordination.validateHandoff(tenant, id, { toAgentType: "qa" });
  if (handoff === null) throw new Error("there is no such handoff");
  const offered = await repository.coordination.offerHandoff(tenant, id, offering(handoff, changes));
  if (!offered.applied || offered.handoff === null) throw new Error("the handoff was not offered");
  return offered.handoff;
}

/** Takes what was offered. */
export function acknowledge(
  repository: CheckpointRepository,
  handoff: Handoff,
  by: Sending & { body?: Record<string, unknown> } = {},
) {
  const { body, ...sending } = by;
  const offer = {
    handoff_id: handoff.handoff_id,
    checkpoint_id: handoff.checkpoint_id,
    agent_type: handoff.to_agent_type,
  };
  return send(repository, "acknowledge", { ...offer, ...body }, { task: handoff.task_id, ...sending });
}

const reading = { label: "test", deadlineMs: 5_000 } as const;

/** A store of its own with a clock that stands until it is moved, and tasks of it where a test wants them. */
export class HandoffPlace {
  bench!: Bench;
  now = Date.now();
  #tasks = 0;

  static async open(engine: Engine): Promise<HandoffPlace> {
    const place = new HandoffPlace();
    place.bench = await openBench(engine, () => place.now);
    return place;
  }

  get repository(): CheckpointRepository {
    return this.bench.repository;
  }

  fresh(): string {
    this.#tasks += 1;
    return `task-${this.#tasks}`;
  }

  head(task: string): Promise<Task> {
    return this.repository.task("default", task);
  }

  handoff(id: string): Promise<Handoff> {
    return this.repository.handoff("default", { handoff_id: id });
  }

  async trail(task: string): Promise<Entry[]> {
    const { entries } = await this.repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
    return entries.map(({ entry }) => JSON.parse(entry) as Entry);
  }

  async outbox(task: string): Promise<OutboxEntry[]> {
    const partitions = await this.bench.store.read(reading, (reader) =>
      Promise.all(Array.from({ length: 8 }, (_, partition) => readOutbox(reader, partition, 10_000))),
    );
    return partitions.flatMap(({ entries }) => entries).filter(({ event }) => event.subject === task);
  }

  async due(): Promise<{ id: string; dueMs: number }[]> {
    const range = systemKeys.handoffsDueBefore(Number.MAX_SAFE_INTEGER);
    const { rows } = await this.bench.store.read(reading, (reader) =>
      reader.getRange(range, { limit: 10_000 }),
    );
    return rows.map(({ key }) => parseHandoffDue(key));
  }

  /** A task that `giver` owns, and hands off by its checkpoint. */
  async requested(): Promise<{ task: string; id: string }> {
    const task = this.fresh();
    await send(this.repository, "take", {}, { task, agent: "giver" });
    const by = { task, agent: "giver", fence: 1 };
    const { checkpoint_id: id } = await create(this.repository, { ...by, checkpoint: handingOff() });
    return { task, id };
  }

  async offered(): Promise<{ task: string; id: string; offer: Handoff }> {
    const { task, id } = await this.requested();
    return { task, id, offer: await offer(this.repository, id) };
  }

  /** `taker` has the task, and has written nothing yet. */
  async accepted(): Promise<{ task: string; id: string }> {
    const { task, id, offer: made } = await this.offered();
    await acknowledge(this.repository, made, { agent: "taker" });
    return { task, id };
  }
}
