/** Offers and handoffs through the client, with a real writer, reader, store and nats-server. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { STREAMS, SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { offeredTask } from "../../../harness/records/handoffs.ts";
import { create, input, send } from "../../../harness/records/records.ts";

let writer: InProcessFleet;

beforeAll(async () => {
  writer = await openInProcessFleet();
});
afterAll(() => writer?.close());

test("an offer that is void when it is acknowledged is reported and removed, and so is a message that is no offer", async () => {
  const fleet = await writer.client("late");
  const id = await offeredTask(writer.records, "gone", "architecture");
  await send(writer.records.repository, "take", {}, { task: "gone", agent: "quick" });
  const subject = SUBJECTS.offer("default", "architecture", "rubbish");
  await writer.publish(subject, { body: Buffer.from("{}") });
  const voids: [string, string][] = [];
  const stop = await fleet.onOffer("architecture", async (one) => void (await one.acknowledge()), {
    onVoid: ({ handoff_id }, { code }) => voids.push([handoff_id, code]),
  });
  await expect.poll(() => voids).toEqual([[id, "CONFLICT"]]);
  await expect.poll(async () => (await writer.bus.stream(STREAMS.offers).state()).messages).toBe(0);
  await stop();
});

test("several offers within the concurrency limit, and queries for their handoffs", async () => {
  const fleet = await writer.client("many");
  const ids = await Promise.all(
    ["m1", "m2", "m3"].map((task) => offeredTask(writer.records, task, "architecture")),
  );
  let [now, most] = [0, 0];
  const taken: string[] = [];
  const stop = await fleet.onOffer(
    "architecture",
    async (one) => {
      const { task, handoffId, checkpointId, fence } = await one.acknowledge();
      expect([task.fence, checkpointId]).toEqual([fence, one.data.checkpoint.id]);
      now += 1;
      most = Math.max(most, now);
      await task.checkpoint({
        metadata: { agent_type: "architecture" },
        execution_state: { phase: "planning" },
      });
      now -= 1;
      taken.push(handoffId);
    },
    { concurrency: 2 },
  );
  await expect.poll(() => taken.length, { timeout: 10_000 }).toBe(3);
  await stop();
  expect(most).toBeLessThanOrEqual(2);
  expect(taken.sort()).toEqual(ids.sort());
  expect(await fleet.handoff(ids[0]!)).toMatchObject({ state: "confirmed", accepted_by: "many" });
  expect(await fleet.handoff(uuidv7())).toBeNull();
  expect((await fleet.handoffs({ taskId: "m2" })).handoffs).toMatchObject([{ task_id: "m2" }]);
});

test("a handoff is requested, cancelled and requested again", async () => {
  const fleet = await writer.client("requester");
  const { checkpoint_id } = await create(writer.records.repository, {
    task: "requested-task",
    checkpoint: input(),
  });
  const requested = await fleet.initiateHandoff(checkpoint_id, {
    toAgentType: "qa",
    nextPhase: "testing",
    reason: "done",
  });
  expect(requested).toMatchObject({
    outcome: "committed",
    taskId: "requested-task",
    checkpointId: checkpoint_id,
  });
  await expect(fleet.task("requested-task").handOff()).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await fleet.handoffOf("requested-task")).toMatchObject({
    handoff_id: requested.handoffId,
    next_phase: "testing",
  });
  expect(await fleet.cancelHandoff("requested-task", { reason: "not yet" })).toMatchObject({
    handoffId: requested.handoffId,
    state: "cancelled",
  });
  await expect(fleet.cancelHandoff("requested-task")).rejects.toMatchObject({
    code: expect.stringMatching(/CONFLICT|NOT_FOUND/),
  });
  expect(await fleet.task("requested-task").handOff({ reason: "now" })).toMatchObject({
    outcome: "committed",
    state: "requested",
  });
});
