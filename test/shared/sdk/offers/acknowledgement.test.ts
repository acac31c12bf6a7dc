/** `acknowledgeHandoff(checkpointId, newAgentId)` of seed 000 §5.1, with a real writer, reader, store and nats-server. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { offeredTask } from "../../../harness/records/handoffs.ts";

let fleet: InProcessFleet;
let orchestrator: FleetClient;
beforeAll(async () => {
  fleet = await openInProcessFleet();
  orchestrator = await fleet.client("orchestrator");
});
afterAll(() => fleet?.close());

async function offered(task: string): Promise<string> {
  await offeredTask(fleet.records, task, "qa");
  return (await orchestrator.handoffOf(task))?.checkpoint_id ?? "";
}

test("seed 000 §5.1 acknowledgeHandoff: by the id of the checkpoint, this agent becomes the owner", async () => {
  const accepted = await orchestrator.acknowledgeHandoff(`chk-${await offered("own")}`);
  expect(await orchestrator.getTask("own")).toMatchObject({ owner: "orchestrator", fence: accepted.fence });
});

test("seed 000 §5.1 acknowledgeHandoff: on behalf of an agent that the orchestrator starts, that agent becomes the owner and writes under the fence", async () => {
  const { fence } = await orchestrator.acknowledgeHandoff(await offered("started"), "qa-9");
  expect(await orchestrator.getTask("started")).toMatchObject({ owner: "qa-9", fence });
  expect(await orchestrator.handoffOf("started")).toMatchObject({ state: "accepted", accepted_by: "qa-9" });
  const agent = await fleet.client("qa-9");
  const checkpoint = { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" as const } };
  const written = await agent.task("started", { fence }).checkpoint(checkpoint);
  expect(written.outcome).toBe("committed");
  expect(await orchestrator.handoffOf("started")).toMatchObject({ state: "confirmed" });
});

test("a checkpoint that is not offered, or no more, is refused, and the owner stays", async () => {
  const id = await offered("taken");
  await orchestrator.acknowledgeHandoff(id, "qa-1");
  await expect(orchestrator.acknowledgeHandoff(id, "qa-2")).rejects.toMatchObject({
    code: "CONFLICT",
    details: { checkpoint_id: id, task_id: "taken", handoff_state: "accepted" },
  });
  expect(await orchestrator.getTask("taken")).toMatchObject({ owner: "qa-1" });
  await expect(orchestrator.acknowledgeHandoff("01a20034-080b-7e0f-afff-92b62777977f")).rejects.toMatchObject(
    {
      code: "NOT_FOUND",
    },
  );
  await expect(orchestrator.acknowledgeHandoff("not an id")).rejects.toMatchObject({ code: "INVALID" });
});
