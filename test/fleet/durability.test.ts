/** Real processes, really killed: what was answered `committed` is there afterwards, and what was committed is published. */

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CheckpointInput, CommittedOutcome, FleetEvent } from "../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";

const checkpoint = (n: number): CheckpointInput => ({
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing", completed_items: [`step ${n}`] },
});

/** These clients wait for a writer however long it takes, instead of leaving their commands to the queue. */
const PATIENT = { fallback: "none" } as const;

describe("a fleet that is killed", () => {
  let fleet: TestFleet;
  beforeAll(async () => {
    fleet = await startFleet({ FLEET_LOG_LEVEL: "warn" });
  });
  afterAll(() => fleet.stop());

  test("keeps every committed checkpoint through SIGKILL under load, and repeats answers for the rest", async () => {
    const client = await fleet.client("writer-1", "default", PATIENT);
    const committed = new Map<string, CommittedOutcome>();
    const asked: { id: string; task: string }[] = [];
    let stop = false;
    const lanes = Array.from({ length: 20 }, async (_, lane) => {
      for (let n = 0; !stop; n += 1) {
        const id = uuidv7();
        const task = `kill-${lane}`;
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
    await Promise.all(lanes);

    // Every command, also those whose answer the kill cut off, was carried through to one answer by its client.
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

  test("publishes every committed transition, in order per task, although it was killed in between", async () => {
    const client = await fleet.client("writer-2", "default", PATIENT);
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
    // Core subscribers miss what is published while they reconnect; the stream has it all, so count there.
    const status = async () => (await client.admin.status()).outbox.depth;
    while ((await status()) > 0) await new Promise((resolve) => setImmediate(resolve));
    for (const task of tasks) expect(of(task)).toEqual([...of(task)].sort((a, b) => a - b));
    const { counts } = await client.admin.status();
    expect(counts.events).toBeGreaterThanOrEqual(tasks.length * 10);
  }, 120_000);

  test("stops cleanly on SIGTERM, also in the middle of work, and keeps everything", async () => {
    const client = await fleet.client("writer-3", "default", PATIENT);
    const first = await client.createCheckpoint({ taskId: "graceful", checkpoint: checkpoint(0) });
    const underway = Array.from({ length: 50 }, (_, n) =>
      client.createCheckpoint({ taskId: `graceful-${n}`, checkpoint: checkpoint(n), deadlineMs: 60_000 }),
    );
    expect(await fleet.terminate()).toBe(0);
    await fleet.start();
    const outcomes = await Promise.all(underway);
    expect(outcomes.every(({ outcome }) => outcome === "committed")).toBe(true);
    expect((await client.getCheckpoint(first.checkpointId))?.metadata.seq).toBe(1);
  }, 120_000);
});
