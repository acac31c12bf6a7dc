// Random tasks with updates, forks, handoffs, failures, recoveries, corruption, holds and policies, and passes of retention
// at random times: nothing that a task needs is ever removed, and everything still verifies.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createChainVerifier } from "../../../../shared/integrity/chain.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { Policies } from "../../../../shared/protocol/policy.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { findRecoveryPoint } from "../../../../shared/records/recovery/recovery-point.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import { acknowledge, offer } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const DAY_MS = 86_400_000;
const reading = { label: "test", deadlineMs: 5_000 } as const;
const SEEDS = Array.from({ length: 30 }, (_, n) => n + 1);
const STEPS = 40;
const CLASSES = [undefined, undefined, undefined, "working", "short", "P3D", "permanent"] as const;

const policies: Policies = {
  defaults: { retention: { days: 2, keep: 2, max: 8, completed_days: 3 } },
  tenants: {},
};

/** The generator "mulberry32". */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

describe.each(ENGINES.slice(0, 1))("random tasks on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine, policies);
  });
  afterAll(() => place.close());

  const living = async (task: string) =>
    (await place.repository.history("default", { task_id: task, limit: 1_000, order: "newest" })).checkpoints;

  const point = (task: string, before?: string | null) =>
    place.store.read(reading, (reader) =>
      findRecoveryPoint(reader, "default", task, { before: before ?? null }),
    );

  /** Changes one bit of the stored row. The read that follows quarantines it. */
  async function corrupt(task: string, id: string | null, corrupted: Set<string>): Promise<void> {
    if (!id) return;
    corrupted.add(id);
    const key = tenantKeys("default").checkpoint(task, id);
    await place.store.transact({ ...reading, onUnknown: "safe" }, async (tx) => {
      const row = await tx.get(key);
      if (row === undefined) return;
      const damaged = Uint8Array.from(row);
      damaged[damaged.length - 20]! ^= 1;
      tx.set(key, damaged);
    });
    await place.repository.get("default", id).catch(() => {});
  }

  async function takeOver(task: string, agent: string): Promise<void> {
    const { handoff_id } = await place.head(task);
    if (handoff_id === null) return;
    const handoff = await place.handoff(handoff_id);
    // An agent has it, and owes its first checkpoint.
    if (handoff.state === "accepted") return;
    // A refused acceptance leaves the offer open, and no coordinator makes a second one beside it.
    const isOpen = handoff.state === "offered" && place.now < Date.parse(handoff.deadline ?? "");
    const offered = isOpen ? handoff : await offer(place.repository, handoff_id);
    await acknowledge(place.repository, offered, { agent });
  }

  /** Moves of agents, operators and time. One that the task does not allow is refused, which is as good. */
  function movesOf(
    task: string,
    below: (n: number) => number,
    corrupted: Set<string>,
  ): Record<string, () => Promise<unknown>> {
    const agent = () => `agent-${1 + below(2)}`;
    const fence = async () => (await place.head(task)).fence;
    const one = async () => {
      const all = await living(task);
      return all[below(Math.max(1, all.length))]?.metadata.checkpoint_id ?? "";
    };
    const by = async () => ({ task, agent: agent(), fence: await fence() });
    const write = async (parents?: string[]) => {
      const policy = CLASSES[below(CLASSES.length)];
      const made = input({ completed_items: Array.from({ length: below(6) }, (_, n) => `item ${n}`) });
      if (parents !== undefined) made.metadata.parent_ids = parents;
      return create(place.repository, {
        ...(await by()),
        checkpoint: { ...made, ...(policy !== undefined && { compliance: { retention_policy: policy } }) },
      });
    };
    return {
      write: () => write(),
      "write again": () => write(),
      fork: async () => write([await one()]),
      update: async () =>
        send(
          place.repository,
          "update",
          { checkpoint_id: await one(), patch: { execution_state: { goal: `goal ${below(99)}` } } },
          await by(),
        ),
      finalize: async () =>
        finalize(place.repository, await one(), below(2) === 0 ? "succeeded" : "handed_off", await by()),
      take: () => send(place.repository, "take", {}, { task, agent: agent() }),
      handoff: async () => send(place.repository, "handoff", { checkpoint_id: await one() }, await by()),
      "take over": () => takeOver(task, agent()),
      fail: () => place.fail(task),
      attempt: async () => {
        const { recovery } = await place.head(task);
        if (recovery?.due_at != null) await place.attempt(task);
      },
      corrupt: async () =>
        corrupt(task, below(2) === 0 ? (await place.head(task)).latest_id : await one(), corrupted),
      complete: async () => {
        const made = await create(place.repository, {
          ...(await by()),
          checkpoint: input({ phase: "complete" }),
        });
        await finalize(place.repository, made.checkpoint_id, "succeeded", await by());
      },
      hold: () => send(place.repository, "hold", { hold: "case" }, { task, agent: "human=olga" }),
      release: () => send(place.repository, "hold", { release: "case" }, { task, agent: "human=olga" }),
      remove: async () =>
        send(
          place.repository,
          "remove",
          { checkpoint_id: await one(), keep: 1 },
          { task, agent: "human=olga" },
        ),
      drafts: () => place.sweepDrafts(),
      "some time": async () => {
        place.now += below(3) * DAY_MS;
      },
    };
  }

  /** What a pass of retention must leave as it was, or make only better. */
  async function needs(task: string) {
    const head = await place.head(task);
    const found = await point(task);
    const previous = found.found ? await point(task, found.checkpoint.metadata.checkpoint_id) : found;
    const avoid = head.recovery?.avoid_id ?? null;
    const avoided = avoid === null ? null : await point(task, avoid);
    const handoff = head.handoff_id === null ? null : (await place.handoff(head.handoff_id)).checkpoint_id;
    const idOf = (one: typeof found | null) =>
      one?.found === true ? one.checkpoint.metadata.checkpoint_id : null;
    return { head, point: idOf(found), previous: idOf(previous), avoided: idOf(avoided), handoff };
  }

  test.each(SEEDS)("seed %i: what a task needs survives, and all verifies", async (seed) => {
    const below = randomFrom(seed);
    const task = place.fresh();
    const corrupted = new Set<string>();
    const moves = movesOf(task, below, corrupted);
    const names = Object.keys(moves);
    const log: string[] = [];
    await create(place.repository, { task });
    for (let step = 0; step < STEPS; step += 1) {
      const name = names[below(names.length)]!;
      log.push(name);
      await moves[name]!().catch((error: unknown) => {
        const isRefusal =
          error instanceof FleetError || /there is no|no agent|none is open/.test(String(error));
        if (!isRefusal) throw error;
      });
      if (below(3) > 0) continue;
      const before = await needs(task);
      const [held, kept] = [before.head.retention?.holds ?? [], await living(task)];
      await place.retain();
      log.push("(retention)");
      const after = await needs(task);
      const isCompleted = before.head.state === "completed";
      const context = log.join(", ");
      if (!isCompleted) {
        expect({ ...after, head: null }, context).toEqual({ ...before, head: null });
        expect((await living(task)).length, context).toBeGreaterThanOrEqual(Math.min(2, kept.length));
      }
      if (held.length > 0) expect((await living(task)).length, context).toBe(kept.length);
      const { audit_seq: _seq, audit_hash: _hash, ...head } = after.head;
      expect(before.head, context).toMatchObject(head);
    }
    for (let more = true; more; ) ({ more } = await stepIndex(place.store, async () => {}));
    const { stored, replayed } = await place.replayed(task);
    expect(stored).toEqual(replayed);
    const { entries, task: head } = await place.repository.audit("default", {
      task_id: task,
      from_seq: 1,
      limit: 500,
    });
    const chain = createChainVerifier();
    for (const entry of entries) chain.add(entry);
    expect(chain.finish({ seq: head.audit_seq, hash: head.audit_hash }).ok).toBe(true);
    // The next agent continues from what latest answers.
    const latest = await place.repository.latest("default", task).catch(() => null);
    if (latest?.checkpoint != null) {
      const made = input();
      made.metadata.parent_ids = [latest.checkpoint.metadata.checkpoint_id];
      await send(place.repository, "take", {}, { task, agent: "agent-9" });
      const { fence } = await place.head(task);
      await create(place.repository, { task, agent: "agent-9", fence, checkpoint: made });
    }
    const { findings } = await scrub(
      { store: place.store, repository: place.repository },
      { now: () => place.now },
    );
    expect(
      findings.filter(
        ({ task_id, kind, checkpoint_id }) =>
          task_id === task &&
          !(["checkpoint", "version"].includes(kind) && corrupted.has(checkpoint_id ?? "")),
      ),
    ).toEqual([]);
  });
});
