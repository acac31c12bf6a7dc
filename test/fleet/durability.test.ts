/** Real processes that are killed: every checkpoint that was answered `committed` is stored afterwards, and its event is published. */

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CheckpointInput, CommittedOutcome, FleetEvent } from "../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";

const checkpoint = (n: number): CheckpointInput => ({
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing", completed_items: [`step ${n}`] },
});

/** These clients wait for a writer instead of putting their commands in the queue. */
const NO_FALLBACK = { fallback: "none" } as const;

describe("a killed fleet", () => {
  let fleet: TestFleet;
  beforeAll(async () => {
    fleet = await startFleet({ FLEET_LOG_LEVEL: "warn" });
  });
  afterAll(() => fleet.stop());

  test("keeps every committed checkpoint after SIGKILL under load, and answers the repeated commands", async () => {
    const client = await fleet.client("writer-1", "default", NO_FALLBACK);
    const committed = new Map<string, CommittedOutcome>();
    const asked: { id: string; task: string }[] = [];
    let stop = false;
    const agents = Array.from({ length: 20 }, async (_, agent) => {
      for (let n = 0; !stop; n += 1) {
        const id = uuidv7();
        const task = `kill-${agent}`;
        asked.push({ id, task });
        const outcome = await client
          .createCheckpoint({ taskId: task, checkpoint: checkpoint(n), commandId: id, deadlineMs: 60_000 })
          .catch(() => null);
        if (outcome?.outcome === "committed") committed.set(id, outcome);
      }
    });
    while (committed.size < 200) await new Promise((resolve) => setImmediate(resolve));
    await fleet.kill9();
    const before = committed.size;
    await fleet.start();
    while (committed.size < before + 100) await new Promise((resolve) => setImmediate(resolve));
    stop = true;
    await Promise.all(agents);

    // The client repeated every command until it was answered, also the commands whose answer was lost in the kill.
    expect(committed.size).toBe(asked.length);
    const tasks = [...new Set(asked.map(({ task }) => task))];
    const stored = new Map<string, string>();
    for (const task of tasks) {
      const { checkpoints, corrupt } = await client.getCheckpointHistory(task, {
        limit: 1_000,
        order: "oldest",
      });
      expect(corrupt).toEqual([]);
      expect(checkpoints.map(({ metadata }) => metadata.seq)).toEqual(checkpoints.map((_, i) => i + 1));
      for (const { metadata, compliance } of checkpoints) stored.set(metadata.checkpoint_id, compliance.hash);
      expect((await client.verifyAudit(task)).ok).toBe(true);
    }
    expect([...stored.keys()].sort()).toEqual([...committed.keys()].sort());
    for (const [id, outcome] of committed) expect(stored.get(id)).toBe(outcome.hash);
  }, 120_000);

  test("publishes every committed transition in the order of its task, in spite of the kill", async () => {
    const client = await fleet.client("writer-2", "default", NO_FALLBACK);
    const events: FleetEvent[] = [];
    await client.onEvent((event) => events.push(event));
    const tasks = Array.from({ length: 10 }, (_, i) => `events-${i}`);
    const write = (round: number) =>
      Promise.all(
        tasks.map((taskId) =>
          client.createCheckpoint({ taskId, checkpoint: checkpoint(round), deadlineMs: 60_000 }),
        ),
      );
    for (let round = 0; round < 5; round += 1) await write(round);
    await fleet.kill9();
    await fleet.start();
    for (let round = 5; round < 10; round += 1) await write(round);
    const of = (task: string) => [
      ...new Set(events.filter(({ subject }) => subject === task).map(({ sequence }) => sequence)),
    ];
    // A core subscriber misses the events that are published while it reconnects. The stream has all of them, so count there.
    const status = async () => (await client.admin.status()).outbox.depth;
    while ((await status()) > 0) await new Promise((resolve) => setImmediate(resolve));
    for (const task of tasks) expect(of(task)).toEqual([...of(task)].sort((a, b) => a - b));
    const { counts } = await client.admin.status();
    expect(counts.events).toBeGreaterThanOrEqual(tasks.length * 10);
  }, 120_000);

  test("stops cleanly on SIGTERM during its work, and keeps every checkpoint", async () => {
    const client = await fleet.client("writer-3", "default", NO_FALLBACK);
    const first = await client.createCheckpoint({ taskId: "graceful", checkpoint: checkpoint(0) });
    const inFlight = Array.from({ length: 50 }, (_, n) =>
      client.createCheckpoint({ taskId: `graceful-${n}`, checkpoint: checkpoint(n), deadlineMs: 60_000 }),
    );
    expect(await fleet.terminate()).toBe(0);
    await fleet.start();
    const outcomes = await Promise.all(inFlight);
    expect(outcomes.every(({ outcome }) => outcome === "committed")).toBe(true);
    expect((await client.getCheckpoint(first.checkpointId))?.metadata.seq).toBe(1);
  }, 120_000);
});
