/** The log says which members of a refused request are wrong and what they must be, and never what the caller has sent. */
import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { newRestClient } from "../../harness/rest-client.ts";

const LAST_MS = 240_000;
const SOON = { timeout: 60_000, interval: 100 };

let fleet: TestFleet;

beforeEach(async () => {
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1", FLEET_LOG_LEVEL: "debug" });
}, LAST_MS);
afterEach(async () => {
  await fleet?.stop();
}, LAST_MS);

const linesWith = (...words: string[]) =>
  fleet
    .output()
    .split("\n")
    .filter((line) => words.every((word) => line.includes(word)));

test("values of refused input and reasons of recoveries are in no line of the log", {
  timeout: LAST_MS,
}, async () => {
  const canary = `canary${randomBytes(10).toString("hex")}`;
  const client = await fleet.client("operator-1");
  const rest = await newRestClient(fleet, { name: "writer-1" });
  const execution_state = { phase: "testing", pending_items: canary };
  const body = JSON.stringify({ task_id: "refused", agent_type: "qa", execution_state });
  const headers = { "content-type": "application/json" };
  expect((await rest.send("POST", "/checkpoints", { body, headers })).status).toBe(400);
  const wrong = { sql: canary } as unknown as string;
  await expect(
    client.createCheckpoint({ taskId: "refused", checkpoint: input({ phase: canary as "testing" }) }),
  ).rejects.toMatchObject({ code: "INVALID" });
  await expect(
    client.createCheckpoint({ taskId: "refused", checkpoint: input({ goal: wrong }) }),
  ).rejects.toMatchObject({ code: "INVALID" });
  await client.createCheckpoint({ taskId: "recovered", checkpoint: input() });
  await client.admin.executeRecovery(null, { taskId: "recovered", reason: canary, force: true });
  await expect
    .poll(() => linesWith("recovery changed", "RECOVERY_REQUESTED").length, SOON)
    .toBeGreaterThan(0);
  await expect.poll(() => linesWith("request refused", '"fields"').length, SOON).toBeGreaterThan(0);
  expect(linesWith(canary)).toEqual([]);
});
