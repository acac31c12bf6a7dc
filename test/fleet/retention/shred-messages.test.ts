/** The messages of a shredded task in the streams of a real fleet, which is killed while it erases them: reports of exits, alerts and offers. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { input } from "../../harness/records/records.ts";

const TEST_MS = 300_000;
const POLL = { timeout: 120_000 };
const CALL = { deadlineMs: 60_000, fallback: "none" } as const;
/** In no other text of the test. No handoff has it as its reason: events keep those. */
const CANARY = "quetzalcoatlus";
const OTHER = "pteranodon";

let fleet: TestFleet;
let agent: FleetClient;
let olga: FleetClient;
let pavel: FleetClient;

beforeAll(async () => {
  fleet = await startFleet();
  agent = await fleet.client("coder-1");
  [olga, pavel] = [await fleet.client("human=olga"), await fleet.client("human=pavel")];
}, TEST_MS);
afterAll(() => fleet?.stop());

const alertsOf = async (taskId: string) => (await olga.admin.listAlerts({ taskId, ...CALL })).alerts;

/** Whether a file of the server has the text. */
const isOnBus = (text: string): boolean => filesWith(join(fleet.home, "nats"), text).length > 0;

/** A task that was blocked by an exit with details, with an acknowledged alert, and an offer that no agent takes. */
async function blockedOnce(task: string, text: string): Promise<void> {
  let handle = await agent.takeTask(task, CALL);
  await handle.checkpoint(input({ goal: "g" }), CALL);
  const { fence } = handle;
  const failed = { agent_id: "coder-1", task_id: task, fence: fence!, class: "unrecoverable" } as const;
  await agent.reportExit(exitReport({ ...failed, details: text }));
  await expect.poll(async () => JSON.stringify(await alertsOf(task)), POLL).toContain(text);
  const [{ alert }] = (await alertsOf(task)) as [Awaited<ReturnType<typeof alertsOf>>[number]];
  await olga.admin.acknowledgeAlert(alert.id, { note: `note ${text}`, deadlineMs: 60_000 });
  handle = await agent.takeTask(task, CALL);
  await handle.checkpoint(input({ goal: text }), CALL);
  await handle.handOff({ toAgentType: "qa", ...CALL });
  await expect.poll(async () => (await agent.handoffOf(task, CALL))?.state, POLL).toBe("offered");
  await handle.cancelHandoff(CALL);
  await handle.release(CALL);
}

test("reports, alerts with their notes, and offers go with the content, also after a kill", {
  timeout: TEST_MS,
}, async () => {
  await blockedOnce("gone", CANARY);
  await blockedOnce("gone-2", OTHER);
  // Many, so the kill comes while they are erased.
  for (let n = 0; n < 300; n += 1)
    await agent.reportExit(
      exitReport({ agent_id: "coder-1", task_id: "gone", fence: 0, details: `${CANARY} ${n}` }),
    );
  await expect.poll(() => [isOnBus(CANARY), isOnBus(OTHER)], POLL).toEqual([true, true]);
  const { retention } = olga.admin;
  const { shred } = await retention.requestShred("gone", { reason: "erasure", deadlineMs: 60_000 });
  await pavel.admin.retention.approveShred("gone", shred!.request_seq, { deadlineMs: 60_000 });
  const isBegun = async () => (await olga.getCheckpointHistory("gone", CALL)).checkpoints.length === 0;
  await expect.poll(isBegun, { ...POLL, interval: 5 }).toBe(true);
  await fleet.kill9();
  await fleet.start();
  await expect.poll(async () => (await olga.getTask("gone", CALL))?.shred?.state, POLL).toBe("shredded");
  expect(await alertsOf("gone")).toEqual([]);
  expect(isOnBus(CANARY)).toBe(false);
  // Those of the other task, whose name begins like that of this one, stay.
  expect(isOnBus(OTHER)).toBe(true);
  const [kept] = await alertsOf("gone-2");
  expect(kept).toMatchObject({
    alert: { data: { details: OTHER } },
    acknowledgement: { note: `note ${OTHER}` },
  });
});
