/** Recoveries for tests: agents that fail, and what watchdogs do about it, by the same calls that they make. */
import { uuidv7 } from "uuidv7";
import type { CommittedAnswer } from "../../../shared/protocol/answers.ts";
import type { Phase } from "../../../shared/protocol/checkpoint.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import type { Policies } from "../../../shared/protocol/policy.ts";
import type { Recovery } from "../../../shared/protocol/recovery-record.ts";
import type { Task } from "../../../shared/protocol/task.ts";
import {
  parseRecovering,
  parseRecoveryDue,
  systemKeys,
  tenantKeys,
} from "../../../shared/records/kv/keyspace.ts";
import type { Made, Noted, Sighting } from "../../../shared/records/recovery/coordination.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { acknowledge, HandoffPlace, offer } from "./handoffs.ts";
import { create, type Engine, input, openBench, type Sending, send } from "./records.ts";

export const items = (count: number, name = "item"): string[] =>
  Array.from({ length: count }, (_, i) => `${name} ${i + 1}`);

/** What a watchdog would say about the agent that has the task now. */
export function sightingOf(head: Task, changes: Partial<Sighting> = {}): Sighting {
  return {
    class: "crash",
    signal: "exit_report",
    agent_id: head.owner,
    agent_type: "qa",
    fence: head.fence,
    details: null,
    resets_at: null,
    last_sign_at: null,
    ...changes,
  };
}

export async function noteFailure(
  repository: CheckpointRepository,
  task: string,
  changes: Partial<Sighting> = {},
): Promise<Noted> {
  const sighting = sightingOf(await repository.task("default", task), changes);
  return repository.recovery.noteFailure({ tenant: "default", task }, sighting);
}

/** Carries a recovery on that is due, as a watchdog does it: an attempt from the recovery point, or a person. */
export async function carryOn(repository: CheckpointRepository, task: string): Promise<Made> {
  const place = { tenant: "default", task };
  const head = await repository.task("default", task);
  const { rung, avoid_id, wish, due_at } = head.recovery as Recovery;
  const dueAt = due_at ?? "";
  const checkpointId = wish?.checkpoint_id ?? null;
  const before = rung === "previous" ? avoid_id : null;
  const search = await repository.recovery.findPoint(place, { checkpointId, before });
  if (!search.found) {
    const { reason, details } = search;
    return repository.recovery.block(place, { dueAt, reason, details });
  }
  const { checkpoint } = search;
  const point = { checkpoint, hash: checkpoint.compliance.hash };
  return repository.recovery.attempt(place, { dueAt, handoffId: uuidv7(), point });
}

export class RecoveryPlace extends HandoffPlace {
  static override async open(engine: Engine, policies: Policies = { defaults: {}, tenants: {} }) {
    const place = new RecoveryPlace();
    place.bench = await openBench(engine, () => place.now, policies);
    return place;
  }

  async recovery(task: string): Promise<Recovery> {
    const { recovery } = await this.head(task);
    if (recovery === null) throw new Error("no agent of the task has failed yet");
    return recovery;
  }

  /** Writes under the task's fence, with so many items completed. */
  async write(
    task: string,
    agent: string,
    {
      completed = 1,
      phase = "implementing" as Phase,
      ...by
    }: Sending & { completed?: number; phase?: Phase },
  ): Promise<CommittedAnswer> {
    const { fence } = await this.head(task);
    const checkpoint = input({ completed_items: items(completed), phase });
    return create(this.repository, { task, agent, fence, checkpoint, ...by });
  }

  /** A task that `agent-1` owns and has written to: so many checkpoints, each with one more item completed. */
  async owned(checkpoints = 1): Promise<string> {
    const task = this.fresh();
    await send(this.repository, "take", {}, { task });
    for (let n = 1; n <= checkpoints; n += 1) await this.write(task, "agent-1", { completed: n });
    return task;
  }

  fail(task: string, changes: Partial<Sighting> = {}): Promise<Noted> {
    return noteFailure(this.repository, task, changes);
  }

  /** With the clock at the moment when it is due. */
  async attempt(task: string): Promise<Made> {
    const { due_at } = await this.recovery(task);
    this.now = Math.max(this.now, Date.parse(due_at ?? ""));
    return carryOn(this.repository, task);
  }

  /** The open handoff is offered, and `agent` takes it. */
  async takeOver(task: string, agent: string): Promise<Handoff> {
    const { handoff_id } = await this.head(task);
    const offered = await offer(this.repository, handoff_id ?? "none is open");
    await acknowledge(this.repository, offered, { agent });
    return this.handoff(offered.handoff_id);
  }

  /** The task's agent fails, and an attempt is made. */
  async attempted(checkpoints = 1): Promise<string> {
    const task = await this.owned(checkpoints);
    await this.fail(task);
    await this.attempt(task);
    return task;
  }

  /** The next agent, `agent-2`, has written, and got done what was done before. */
  async resumed(checkpoints = 1): Promise<string> {
    const task = await this.attempted(checkpoints);
    await this.takeOver(task, "agent-2");
    await this.write(task, "agent-2", { completed: checkpoints });
    return task;
  }

  /** Fails as often as the policy allows and once more, with nothing done in between. */
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

  /** What the task did, by its events. */
  async events(task: string): Promise<string[]> {
    return (await this.outbox(task)).map(({ event }) => event.type);
  }

  /** Entries of the due index, all tenants'. */
  async dueRecoveries(): Promise<{ task: string; key: string }[]> {
    const { rows } = await this.bench.store.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
      reader.getRange(systemKeys.recoveriesDueBefore(Number.MAX_SAFE_INTEGER), { limit: 10_000 }),
    );
    return rows.map(({ key }) => ({
      task: parseRecoveryDue(key).task,
      key: Buffer.from(key).toString("hex"),
    }));
  }

  /** Tasks of the default tenant that the index names. */
  async recovering(): Promise<string[]> {
    const { rows } = await this.bench.store.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
      reader.getRange(tenantKeys("default").recoveringTasks(), { limit: 10_000 }),
    );
    return rows.map(({ key }) => parseRecovering(key));
  }
}
