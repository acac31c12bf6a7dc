/** The completion of a task under a policy that names another agent type for phase `complete`, with a real writer, reader and server. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { creation, type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { offer } from "../../harness/records/handoffs.ts";
import { input } from "../../harness/records/records.ts";

const completeTo = (type: string) => ({ next_agent: { by_next_phase: { complete: type } } });

let fleet: InProcessFleet;

beforeAll(async () => {
  const agent_types = {
    qa: completeTo("implementation"),
    architecture: { triggers: { task_complete: false } },
  };
  fleet = await openInProcessFleet({
    policies: { defaults: completeTo("qa"), tenants: { default: { agent_types } } },
  });
});
afterAll(() => fleet?.close());

const head = (task: string) => fleet.records.repository.task("default", task);
const record = (task: string) => fleet.records.repository.handoff("default", { task_id: task });

test("an agent of another type gets the completed task, finishes it, and the task ends", async () => {
  const built = await fleet.runAgent("builder", {
    type: "implementation",
    task: "built",
    begin: { pending_items: ["build"] },
    work: (one) => one.done("build"),
  });
  expect(built).toMatchObject({ outcome: "handed_off", taskId: "built" });
  expect(await record("built")).toMatchObject({
    handoff_id: built.handoffId,
    checkpoint_id: built.checkpointId,
    to_agent_type: "qa",
    trigger: { reason: "task_complete" },
  });
  await offer(fleet.records.repository, built.handoffId as string, { toAgentType: "qa" });
  const reviewed = await fleet.runAgent("reviewer", {
    type: "qa",
    async work(one) {
      expect(one.resumedFrom?.metadata).toMatchObject({
        checkpoint_id: built.checkpointId,
        status: "finalized",
        final_status: "succeeded",
      });
      expect(one.state.execution_state).toMatchObject({
        phase: "complete",
        completed_items: [{ title: "build" }],
      });
      await one.done("review");
    },
  });
  // The policy of the reviewer names the type of the builder.
  expect(reviewed).toMatchObject({ outcome: "completed", taskId: "built", handoffId: null });
  expect(await head("built")).toMatchObject({ state: "completed", owner: "reviewer", fence: 2 });
  const handoffs = await fleet.records.repository.handoffs("default", { task_id: "built", limit: 5 });
  expect(handoffs.handoffs).toMatchObject([{ state: "confirmed" }]);
  await fleet.audit("built");
});

test("the task of an agent whose policy switches the trigger off ends", async () => {
  const result = await fleet.runAgent("planner", {
    type: "architecture",
    task: "planned",
    work: async () => {},
  });
  expect(result).toMatchObject({ outcome: "completed", handoffId: null });
  expect(await head("planned")).toMatchObject({ state: "completed" });
});

const completed = () => creation({ checkpoint: input({ phase: "complete" }) });

test("a client without the SDK gets the handoff in the answer, again after a retry", async () => {
  const { checkpoint_id } = await fleet.send("create", completed(), { task: "raw" });
  const finalize = { command_id: uuidv7(), checkpoint_id, status: "succeeded" };
  const answer = await fleet.send("finalize", finalize, { task: "raw" });
  expect(answer).toMatchObject({ status: "committed", handoff_id: finalize.command_id, replayed: false });
  expect(await fleet.send("finalize", finalize, { task: "raw" })).toEqual({ ...answer, replayed: true });
  expect(await record("raw")).toMatchObject({ handoff_id: finalize.command_id, state: "requested" });
});

test("a queued completion opens the handoff when it is applied", async () => {
  const body = completed();
  await fleet.enqueue("create", body, { task: "queued" });
  const finalize = { command_id: uuidv7(), checkpoint_id: body.command_id, status: "succeeded" };
  await fleet.enqueue("finalize", finalize, { task: "queued" });
  await fleet.drained();
  expect(await record("queued")).toMatchObject({ handoff_id: finalize.command_id, to_agent_type: "qa" });
});
