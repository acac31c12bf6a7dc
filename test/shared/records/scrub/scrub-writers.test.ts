/** The scrub during concurrent writes: it never reports sound records as damaged. */
import { EventEmitter, once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import { acknowledge, offer } from "../../../harness/records/handoffs.ts";
import {
  create,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

/** Refusals are expected, because the writers compete for the tasks. */
async function tried<T>(command: Promise<T>): Promise<T | null> {
  try {
    return await command;
  } catch (error) {
    if (error instanceof FleetError && error.code !== "CORRUPT" && error.code !== "INTERNAL") return null;
    throw error;
  }
}

const pick = <T>(some: readonly T[]): T => some[Math.floor(Math.random() * some.length)]!;

/** The number of checkpoints of a task before its other commands. */
const FIRST_CHECKPOINTS = 80;

/** The steps of the scrub, and their end. */
class ScrubSteps extends EventEmitter {
  isOver = false;

  /** The writers are paced by the steps: a pass would never reach the end of a task that grows faster than it reads. */
  next(): Promise<unknown> {
    return this.isOver ? Promise.resolve() : once(this, "step");
  }

  end(): void {
    this.isOver = true;
    this.emit("step");
  }
}

/** Sends all commands of a task in random order until the end; returns the number of checkpoints. */
async function work({ repository }: TestRecords, task: string, scrubbing: ScrubSteps): Promise<number> {
  const made: string[] = [];
  let fence = 0;
  const by = () => ({ task, ...(fence > 0 && { fence }) });
  const add = async (checkpoint = input({ goal: "to do ".repeat(Math.random() * 300) })): Promise<void> => {
    const done = await tried(create(repository, { ...by(), checkpoint }));
    if (done !== null) made.push(done.checkpoint_id);
  };
  const acts = [
    add,
    add,
    async () => {
      const patch = { execution_state: { current_focus: `${Math.random()}` } };
      await tried(send(repository, "update", { checkpoint_id: pick(made), patch }, by()));
    },
    () => tried(send(repository, "link", { parent_id: pick(made), child_id: pick(made) }, by())),
    () => tried(finalize(repository, pick(made), "succeeded", by())),
    async () => {
      const taken = await tried(send(repository, "take", {}, { task }));
      if (taken !== null) fence = taken.fence;
    },
    async () => {
      await add(input({ phase: "handoff" }));
      const offered = await tried(offer(repository, made.at(-1)!));
      if (offered === null || Math.random() < 0.5) return;
      const taken = await tried(acknowledge(repository, offered, { agent: "agent-1" }));
      if (taken !== null) fence = taken.fence;
    },
  ];
  for (let n = 0; n < FIRST_CHECKPOINTS; n += 1) await add();
  while (!scrubbing.isOver) {
    await scrubbing.next();
    await pick(acts)();
  }
  return made.length;
}

/** Indexes what the writers commit, until the end. */
async function follow({ store }: TestRecords, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await stepIndex(store, async () => {});
    await sleep(Math.random() * 50);
  }
}

const LASTS_MS = 4_000;
/** What the passes verify at least, together: one of them has tiny steps and one has large steps. */
const LEAST = { passes: 2, verified: 500, versions: 100, steps: 200 };

describe.each([
  { engine: "memory", leastBytes: 2_500 },
  { engine: "lmdb", leastBytes: 20_000 },
] as const)("under writers on $engine", ({ engine, leastBytes }) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  test("passes in large and in tiny steps find nothing", { timeout: 120_000 }, async () => {
    const scrubbing = new ScrubSteps().setMaxListeners(0);
    const tasks = Array.from({ length: 6 }, (_, n) => `task-${n}`);
    const working = Promise.all(tasks.map((task) => work(bench, task, scrubbing)));
    working.catch(() => {});
    const between = async () => {
      scrubbing.emit("step");
      await sleep(0);
    };
    let verified = 0;
    let versions = 0;
    let steps = 0;
    const indexing = follow(bench, () => scrubbing.isOver);
    indexing.catch(() => {});
    const beganMs = performance.now();
    const elapsed = () => performance.now() - beganMs;
    const isEnough = (passes: number) =>
      passes >= LEAST.passes &&
      verified >= LEAST.verified &&
      versions >= LEAST.versions &&
      steps >= LEAST.steps;
    for (let n = 0; elapsed() < LASTS_MS || !isEnough(n); n += 1) {
      // Each task takes many steps, but their number must not grow with the data, because each step is a commit.
      const { total } = await bench.repository.scrubStatus();
      const stepBytes = n % 2 === 1 ? 256_000 : Math.max(leastBytes, total.checkpoints * 60);
      const done = await scrub(bench, { stepBytes, between });
      expect(done.findings).toEqual([]);
      verified += done.pass.checkpoints + done.pass.versions;
      versions += done.pass.versions;
      steps += done.steps;
    }
    scrubbing.end();
    await indexing;
    const made = (await working).reduce((sum, one) => sum + one, 0);
    const last = await scrub(bench);
    expect(last.findings).toEqual([]);
    expect(last.pass.checkpoints).toBe(made);
  });
});
