// The service threads of the standalone fleet: they share the work and the store, their metrics are merged, and a defect in one of them
// ends the whole process, because its further behaviour is unknown.
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { startFleet } from "../harness/processes/fleet.ts";
import { input } from "../harness/records/records.ts";

const root = await mkdtemp(join(tmpdir(), "fleet-threads-"));
afterAll(() => rm(root, { recursive: true, force: true }));

const TASKS = ["t0", "t1", "t2", "t3", "t4", "t5"];

test("tasks written concurrently keep their order, and the metrics of all threads are merged", async () => {
  const fleet = await startFleet({ FLEET_THREADS: "3" });
  try {
    const clients = await Promise.all(["a", "b", "c", "d"].map((agent) => fleet.client(agent)));
    const writers = clients.flatMap((client) =>
      TASKS.map(async (taskId) => {
        for (let n = 0; n < 5; n++) {
          await client.createCheckpoint({ taskId, checkpoint: input(), deadlineMs: 20_000 });
        }
      }),
    );
    await Promise.all(writers);
    for (const task of TASKS) {
      // On a busy machine, some commands may have passed through the queue.
      await expect.poll(async () => (await clients[0]!.getTask(task))?.seq, { timeout: 20_000 }).toBe(20);
      expect(await clients[0]!.verifyAudit(task)).toMatchObject({ ok: true });
    }
    const text = await (await fetch(`${fleet.opsUrl()}/metrics`)).text();
    const total = [...text.matchAll(/^fleet_commands_total\{[^}]*op="create"[^}]*\} (\d+)/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
    expect(total).toBeGreaterThanOrEqual(120);
    expect(text.match(/^fleet_process_resident_memory_bytes/gm)).toHaveLength(1);
    const ready = await fetch(`${fleet.opsUrl()}/readyz`);
    expect([ready.status, await ready.json()]).toMatchObject([
      200,
      { ok: true, checks: { store: { ok: true }, bus: { ok: true } } },
    ]);
    expect(await fleet.terminate()).toBe(0);
  } finally {
    await fleet.stop();
  }
});

test("a defect in one thread ends the process with its stack in the log, and nothing committed is lost", async () => {
  const trigger = join(root, "now");
  const preload = join(root, "defect.cjs");
  writeFileSync(
    preload,
    `const { isMainThread, workerData } = require("node:worker_threads");
     if (!isMainThread && workerData?.config) setInterval(() => {
       if (require("node:fs").existsSync(${JSON.stringify(trigger)})) throw new Error("a defect on purpose");
     }, 10).unref();`,
  );
  const fleet = await startFleet({ FLEET_THREADS: "2", NODE_OPTIONS: `--require=${preload}` });
  try {
    const client = await fleet.client();
    const { checkpointId } = await client.createCheckpoint({ taskId: "t", checkpoint: input() });
    const ended = fleet.ended();
    writeFileSync(trigger, "");
    expect(await ended).toBe(70);
    expect(fleet.output()).toMatch(/"level":"fatal".*a defect on purpose.*a service thread failed/);
    await rm(trigger);
    await fleet.start();
    expect((await client.getCheckpoint(checkpointId, { deadlineMs: 20_000 }))?.metadata.task_id).toBe("t");
  } finally {
    await fleet.stop();
  }
});
