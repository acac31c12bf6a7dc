/** Recoveries through `fleet.admin`, with a real writer, reader, store and nats-server. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetClient, FleetWarning } from "../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { create, input, send } from "../../harness/records/records.ts";
import { advanceRecovery, noteFailure } from "../../harness/records/recoveries.ts";
import { flip } from "../records/search/corpus.ts";

let writer: InProcessFleet;
let fleet: FleetClient;
const warnings: FleetWarning[] = [];

beforeAll(async () => {
  writer = await openInProcessFleet();
  fleet = await writer.client("operator", { onWarning: (warning) => warnings.push(warning) });
});
afterAll(() => writer?.close());

/** Makes a task with an owner and checkpoints. Resolves with their ids, oldest first. */
async function createOwned(task: string, checkpoints = 2): Promise<string[]> {
  const { repository } = writer.records;
  await send(repository, "take", {}, { task });
  const ids: string[] = [];
  for (let n = 0; n < checkpoints; n += 1) {
    const checkpoint = input({ completed_items: [`item ${n}`] });
    ids.push((await create(repository, { task, fence: 1, checkpoint })).checkpoint_id);
  }
  return ids;
}

test("the recovery point is the newest sound checkpoint, with a warning for each that is passed over", async () => {
  const ids = await createOwned("pointed");
  expect((await fleet.admin.findRecoveryPoint("pointed"))?.metadata.checkpoint_id).toBe(ids[1]);
  await flip(writer.records.store, "pointed", ids[1] as string);
  expect((await fleet.admin.findRecoveryPoint("pointed"))?.metadata.checkpoint_id).toBe(ids[0]);
  expect(warnings).toMatchObject([
    { code: "CHECKPOINT_CORRUPT", details: { task_id: "pointed", checkpoint_id: ids[1] } },
  ]);
  expect(await fleet.admin.recoveryPoint("pointed", { before: ids[1] as string })).toMatchObject({
    checkpoint: { metadata: { checkpoint_id: ids[0] } },
    owner: { agent_id: "agent-1", fence: 1, alive_until: expect.any(String) },
  });
});

test("a task without checkpoints has no recovery point, and a broken chain needs an operator", async () => {
  expect(await fleet.admin.findRecoveryPoint("nowhere")).toBe(null);
  const [first] = await createOwned("broken");
  await flip(writer.records.store, "broken", first as string);
  await expect(fleet.admin.findRecoveryPoint("broken")).rejects.toMatchObject({
    code: "CORRUPT",
    details: { task_id: "broken", corrupt: [{ checkpoint_id: first }] },
  });
  await expect(
    fleet.admin.recoveryPoint("broken", { before: first as string, checkpointId: first as string }),
  ).rejects.toMatchObject({ code: "INVALID", fields: [{ path: "before" }] });
});

test("a recovery from a checkpoint needs force while the agent is alive, and is listed until it is done", async () => {
  const [first] = await createOwned("executed");
  const target = first as string;
  await expect(fleet.admin.executeRecovery(target)).rejects.toMatchObject({
    code: "CONFLICT",
    details: { owner: "agent-1", fence: 1, alive_until: expect.any(String) },
  });
  const result = await fleet.admin.executeRecovery(target, { force: true, reason: "it goes in circles" });
  expect(result).toMatchObject({ taskId: "executed", recovery: "waiting", checkpointId: target, fence: 2 });
  expect((await fleet.admin.recoveries({ state: "waiting" })).tasks).toMatchObject([
    { task_id: "executed", owner: null, recovery: { choice: { reason: "it goes in circles" } } },
  ]);
  await advanceRecovery(writer.records.repository, "executed");
  expect(await fleet.handoffOf("executed")).toMatchObject({
    checkpoint_id: target,
    reason: "it goes in circles",
  });
});

test("a recovery of a task by its id restores the budget with reset", async () => {
  await createOwned("reset", 1);
  await noteFailure(writer.records.repository, "reset", { class: "unrecoverable" });
  expect((await fleet.getTask("reset"))?.recovery).toMatchObject({ state: "blocked", failures: 1 });
  await fleet.admin.executeRecovery(null, { taskId: "reset", reset: true });
  expect((await fleet.getTask("reset"))?.recovery).toMatchObject({ state: "waiting", failures: 0 });
  await expect(fleet.admin.executeRecovery(null)).rejects.toMatchObject({ code: "INVALID" });
  await expect(fleet.admin.executeRecovery(null, { taskId: "nowhere" })).rejects.toMatchObject({
    code: "NOT_FOUND",
  });
});
