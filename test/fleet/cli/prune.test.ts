// `fleet checkpoint prune` and `remove`, and `fleet task retain`, against a standalone fleet that removes nothing by itself.

import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 90_000;

let server: TestFleet;
let client: FleetClient;

const fleet = (line: string): Promise<Result> => {
  const { url, home } = server;
  const env = { FLEET_URL: url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool"), COLUMNS: "160" };
  return callCli(line.split(" "), { env });
};

/** A task with checkpoints, of which all but the last go at once, because the task is completed. */
async function completed(taskId: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 1; n <= count; n += 1) {
    const checkpoint = input({ phase: n === count ? "complete" : "implementing" });
    ids.push(
      String((await client.createCheckpoint({ taskId, checkpoint, deadlineMs: 20_000 })).checkpointId),
    );
  }
  await client.finalizeCheckpoint(ids.at(-1)!, "succeeded", { taskId, deadlineMs: 20_000 });
  return ids;
}

beforeAll(async () => {
  server = await startFleet({ FLEET_RETENTION_EVERY: "off" });
  client = await server.client("agent-1");
});
afterAll(() => server.stop());

describe("US-308 fleet checkpoints prune", { timeout: CALLS_MS }, () => {
  test("lists, asks, and removes", async () => {
    const ids = await completed("auth", 4);
    const preview = await fleet("checkpoints prune --dry-run");
    expect(preview).toMatchObject({ exit: 0, err: "" });
    const day = new Date().toISOString().slice(0, 7);
    expect(preview.out).toContain(
      "Pruning checkpoints that the settings no longer keep...\n\nWould delete:\n",
    );
    for (const id of ids.slice(0, 3))
      expect(preview.out).toMatch(
        new RegExp(`^ {2}chk-${id} {2}auth {2}${day}-\\d\\d {2}manual {2}completed {2}`, "m"),
      );
    expect(preview.out).toMatch(/^Total: 3 checkpoints \(\d.*\)$/m);

    const asked = await fleet("checkpoints prune --mission auth");
    expect(asked).toMatchObject({ exit: 64, out: "" });
    expect(asked.err).toContain("give --yes");

    const removed = await fleet("checkpoints prune --older-than 7 --keep 3 -y --json");
    expect(removed).toMatchObject({ exit: 0, err: "" });
    const result = JSON.parse(removed.out);
    expect(result).toEqual({
      deleted: 3,
      freed_bytes: expect.any(Number),
      details: ids.slice(0, 3).map((id) => ({ id, mission_id: "auth" })),
      refused: [],
    });
    expect(result.freed_bytes).toBeGreaterThan(1_000);
    expect((await fleet("checkpoints prune -y")).out).toContain("None.");
  });

  test("what is removed is said to be, and the trail verifies", async () => {
    const [first, , last] = await completed("gone", 3);
    expect(await fleet("checkpoint prune --task gone -y")).toMatchObject({ exit: 0 });
    const shown = await fleet(`checkpoint show ${first}`);
    expect(shown.exit).toBe(4);
    expect(shown.err).toContain("removed by retention");
    const history = await fleet("checkpoint history gone");
    expect(history.out).toContain("2 checkpoints removed by retention, between #1 and #2");
    expect(history.out).toContain(String(last));
    expect(await fleet("audit verify gone")).toMatchObject({ exit: 0 });
    expect((await fleet("resume gone")).exit).toBe(0);
    const file = join(server.home, "gone.jsonl");
    const exported = await fleet(`export --task gone --out ${file}`);
    expect(exported).toMatchObject({ exit: 0, err: "" });
    expect(exported.out).toContain("2 versions that retention had removed");
    expect(await fleet(`export verify ${file}`)).toMatchObject({ exit: 0 });
  });

  test("one checkpoint is removed by its id, unless retention keeps it", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 4; n += 1) {
      const made = await client.createCheckpoint({ taskId: "one", checkpoint: input(), deadlineMs: 20_000 });
      ids.push(String(made.checkpointId));
    }
    const kept = await fleet(`checkpoint remove ${ids[1]}`);
    expect(kept.exit).toBe(5);
    expect(kept.err).toContain("newest");
    expect(await fleet("task retain one --hold case-17")).toMatchObject({
      exit: 0,
      out: "Task one: on hold (case-17); otherwise kept as the settings say\n",
    });
    expect((await fleet(`checkpoint rm ${ids[0]}`)).err).toContain("held");
    expect((await fleet("task show one")).out).toMatch(/Retention: +on hold \(case-17\)/);
    expect(await fleet("task retain one --release case-17 --policy P6Y")).toMatchObject({
      exit: 0,
      out: "Task one: policy P6Y for new checkpoints\n",
    });
    const removed = await fleet(`checkpoint rm ${ids[0]}`);
    expect(removed).toMatchObject({ exit: 0, err: "" });
    expect(removed.out).toContain(`chk-${ids[0]}, number 1 of task one`);
  });

  test("an update whose checkpoint was removed meanwhile is not said to have failed", async () => {
    const made = await client.createCheckpoint({ taskId: "gone", checkpoint: input(), deadlineMs: 20_000 });
    const id = String(made.checkpointId);
    const commandId = uuidv7();
    const update = () =>
      client.updateCheckpoint(
        id,
        { execution_state: { goal: "more" } },
        { taskId: "gone", commandId, deadlineMs: 20_000 },
      );
    expect(await update()).toMatchObject({ outcome: "committed", version: 2 });
    for (let n = 0; n < 3; n += 1)
      await client.createCheckpoint({ taskId: "gone", checkpoint: input(), deadlineMs: 20_000 });
    expect((await fleet(`checkpoint rm ${id}`)).exit).toBe(0);
    // The retry of a client that did not get the answer.
    await expect(update()).rejects.toMatchObject({
      code: "TIMEOUT",
      details: { command_id: commandId, checkpoint_id: id },
      cause: { code: "NOT_FOUND" },
    });
  });
});

describe("fleet task shred", { timeout: CALLS_MS }, () => {
  test("one person requests it, cannot approve it, and cancels it", async () => {
    await completed("secret", 1);
    const requested = await fleet("task shred secret --reason erasure --case DSR-42 --json");
    expect(requested).toMatchObject({ exit: 0, err: "" });
    expect(JSON.parse(requested.out)).toMatchObject({ shred: { state: "requested", case: "DSR-42" } });
    expect((await fleet("task shreds")).out).toMatch(/^secret +requested +erasure +DSR-42/m);
    const approved = await fleet("task shred-approve secret");
    expect(approved).toMatchObject({ exit: 77, out: "" });
    expect(approved.err).toContain("cannot approve");
    expect((await fleet("task shred-cancel secret")).out).toContain("cancelled");
    expect((await fleet("task shreds")).out).toContain("No tasks to shred.");
    expect((await fleet("task holds")).exit).toBe(0);
  });
});
