/** A whole fleet on small disks that fill up: it reports it, keeps everything acknowledged, and continues without a restart. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { FleetClient } from "../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";
import { exitReport } from "../harness/records/exit-reports.ts";
import { clear, fill, smallDisk } from "../harness/small-disk.ts";

const RESERVE = "8MiB";
const SOON = { timeout: 30_000, interval: 100 };
const GREETING = /^(Fleet is up|In another terminal| {2}(bus|operations|HTTP API|data) )/;

const create = (client: FleetClient, taskId: string, deadlineMs = 20_000) =>
  client.createCheckpoint({
    taskId,
    deadlineMs,
    checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
  });

function reportCrash(client: FleetClient, task: string, fence: number): Promise<void> {
  const details = "a checkpoint was refused";
  return client.reportExit(exitReport({ agent_id: "tester", task_id: task, fence, details }));
}

const readyz = async (fleet: TestFleet) => {
  const answer = await fetch(`${fleet.opsUrl()}/readyz`);
  const { checks } = (await answer.json()) as { checks: { disk: { detail: string } } };
  return { status: answer.status, disk: checks.disk.detail };
};

/** The lines of the log that are not JSON. */
const foreignLines = (output: string) =>
  output.split("\n").filter((line) => line !== "" && !GREETING.test(line) && !isJson(line));

function isJson(line: string): boolean {
  try {
    return typeof JSON.parse(line) === "object";
  } catch {
    return false;
  }
}

/** Resolves when everything that was acknowledged is stored, and new commands are applied. */
async function recovered(client: FleetClient): Promise<void> {
  await expect
    .poll(() => client.admin.queueStatus(), SOON)
    .toMatchObject({ depth: 0, left_total: 1, dead: 0 });
  for (const task of ["before", "low", "queued"])
    expect((await client.getLatestCheckpoint(task))?.metadata.task_id).toBe(task);
  expect(await create(client, "refused")).toMatchObject({ outcome: "committed" });
  await expect
    .poll(async () => (await client.getTask("owned"))?.recovery, SOON)
    .toMatchObject({ attempts: expect.any(Number) });
}

/** On a busy machine an answer may be late: the outcome of that command is unknown. */
const refusal = (client: FleetClient): Promise<unknown> =>
  create(client, "refused", 8_000).then(
    () => "committed",
    (error: unknown) => error,
  );

test("full disks of the store and of the bus", async (context) => {
  const [storeDisk, busDisk] = [smallDisk(64, context), smallDisk(200, context)];
  const fleet = await startFleet(
    { FLEET_STORE: `lmdb:${join(storeDisk, "store")}`, FLEET_DISK_MIN_FREE: RESERVE },
    { home: join(busDisk, "home") },
  );
  onTestFinished(() => fleet.stop());
  const pid = fleet.pid();
  const client = await fleet.client("tester", "default", { fallback: "none" });
  const alerts = async () => (await client.admin.listAlerts({ type: "DISK_NEARLY_FULL" })).alerts;
  expect(await create(client, "before")).toMatchObject({ outcome: "committed" });
  const { fence = 0 } = await client.takeTask("owned");
  expect(await readyz(fleet)).toMatchObject({ status: 200 });

  // Low: an alert, and everything works.
  fill(storeDisk, 12);
  await expect
    .poll(alerts, SOON)
    .toMatchObject([{ resolved: false, alert: { data: { diskOf: ["store"] } } }]);
  expect(await create(client, "low")).toMatchObject({ outcome: "committed" });
  expect(await readyz(fleet)).toMatchObject({ status: 200, disk: expect.stringContaining("low") });

  // The reserve of the store's disk is used: commands wait in the queue.
  fill(storeDisk, 4);
  await expect
    .poll(() => readyz(fleet), SOON)
    .toMatchObject({ status: 503, disk: expect.stringMatching(/store: [^;]*full/) });
  expect(await create(client, "queued")).toMatchObject({ outcome: "queued" });
  expect((await client.admin.status()).disks).toMatchObject([
    { disk_of: ["store"], state: "full" },
    { disk_of: ["bus"], state: "ok" },
  ]);
  expect(await client.admin.queueStatus()).toMatchObject({
    depth: 1,
    left_total: 0,
    store: "full",
    accepts: true,
  });

  // An agent ends, because its checkpoints are refused: its recovery waits for room.
  await reportCrash(client, "owned", fence);
  await expect
    .poll(() => fleet.output(), SOON)
    .toMatch(/"the disk is full[^"]*".*"durable":"watchdog-exits"/);
  expect((await client.getTask("owned"))?.recovery).toBeNull();

  // Both disks are full to the last byte: commands are refused, and no attempt leaves a trace.
  fill(storeDisk, 0);
  fill(busDisk, 12);
  await expect.poll(alerts, SOON).toHaveLength(2);
  fill(busDisk, 0);
  await expect
    .poll(() => readyz(fleet), SOON)
    .toMatchObject({ status: 503, disk: expect.stringMatching(/bus: [^;]*full/) });
  await expect
    .poll(() => refusal(client), SOON)
    .toMatchObject({ code: "UNAVAILABLE", message: "the disk is full", retryable: true });
  expect(await client.admin.queueStatus()).toMatchObject({ depth: 1, left_total: 0, accepts: false });

  clear(storeDisk);
  clear(busDisk);
  await recovered(client);
  await expect.poll(alerts, SOON).toMatchObject([{ resolved: true }, { resolved: true }]);
  await expect.poll(async () => (await readyz(fleet)).status, SOON).toBe(200);
  expect(fleet.pid()).toBe(pid);
  expect(foreignLines(fleet.output())).toEqual([]);
}, 120_000);
