/** The agent loop when its program dies, is started again or loses its ownership, with a real writer, reader, store and nats-server. */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type AgentOptions,
  type FleetClient,
  FleetError,
  RunEnded,
  runAgent,
} from "../../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { advanceRecovery, noteFailure } from "../../../harness/records/recoveries.ts";

let writer: InProcessFleet;

beforeAll(async () => {
  writer = await openInProcessFleet();
});
afterAll(() => writer?.close());

const head = (task: string) => writer.records.repository.task("default", task);
const newest = async (task: string) => (await writer.client("reader")).getLatestCheckpoint(task);

/** Starts an agent whose work waits until its run ends. Resolves when it works, with its result and the reason of the end. */
async function startWaiting(task: string) {
  const working = Promise.withResolvers<void>();
  const reason = Promise.withResolvers<unknown>();
  const result = writer.runAgent(`agent-of-${task}`, {
    type: "qa",
    task,
    async work(one) {
      working.resolve();
      await new Promise((resolve) => one.signal.addEventListener("abort", resolve));
      reason.resolve(one.signal.reason);
      one.signal.throwIfAborted();
    },
  });
  await working.promise;
  return { result, reason: reason.promise };
}

test("a new task has a checkpoint before its work begins, without progress", async () => {
  const begin = { goal: "Begin", pending_items: ["one", "two"] };
  let before: unknown;
  const result = await writer.runAgent("beginner", {
    type: "implementation",
    task: "begun",
    begin,
    async work(one) {
      expect(one.resumedFrom).toBeNull();
      before = await newest("begun");
      await one.done("one");
    },
  });
  expect(result.outcome).toBe("stopped");
  expect(before).toMatchObject({
    metadata: { trigger: { reason: "manual", details: "the task begins" } },
    execution_state: {
      goal: "Begin",
      completed_items: [],
      pending_items: [{ title: "one" }, { title: "two" }],
    },
  });
  // A later run continues from a checkpoint, and writes none to begin with.
  const { seq } = await head("begun");
  const work: AgentOptions["work"] = async () => {
    expect((await head("begun")).seq).toBe(seq);
  };
  await writer.runAgent("beginner", { type: "implementation", task: "begun", work });
});

test("the task of an agent that dies before its first item continues from its first checkpoint", async () => {
  await startWaiting("died");
  await noteFailure(writer.records.repository, "died");
  await advanceRecovery(writer.records.repository, "died");
  const handoff = await writer.records.repository.handoff("default", { task_id: "died" });
  expect(handoff).toMatchObject({ state: "requested", checkpoint_id: (await head("died")).latest_id });
});

/** Makes the next checkpoint of each task that the client takes fail. */
function refuseFirstCheckpoint(client: FleetClient): void {
  const takeTask = client.takeTask.bind(client);
  client.takeTask = async (...args) => {
    const handle = await takeTask(...args);
    const checkpoint = handle.checkpoint.bind(handle);
    handle.checkpoint = async () => {
      handle.checkpoint = checkpoint;
      throw new FleetError("UNAVAILABLE", "neither bus nor disk");
    };
    return handle;
  };
}

test("a first checkpoint that cannot be written does not stop the run", async () => {
  const fleet = await writer.client("unlucky");
  refuseFirstCheckpoint(fleet);
  const result = await runAgent({
    fleet,
    type: "qa",
    task: "unlucky",
    begin: { pending_items: ["one"] },
    async work(one) {
      expect(one.checkpointId).toBeNull();
      await one.done("one");
    },
  });
  expect(result).toMatchObject({ outcome: "completed", taskId: "unlucky" });
  expect(await head("unlucky")).toMatchObject({ state: "completed", seq: 1 });
});

test("an agent whose ownership an operator revokes stops at once, and the error names no owner", async () => {
  const { result, reason } = await startWaiting("revoked");
  const operator = await writer.client("operator");
  await operator.admin.executeRecovery(null, { taskId: "revoked", force: true });
  expect(await result).toMatchObject({ outcome: "fenced", taskId: "revoked" });
  expect(await reason).toBeInstanceOf(RunEnded);
  expect(String(await reason)).toContain(
    "the ownership of this task was revoked or passed to another agent;",
  );
});

test("an agent whose failure is recorded although it is alive stops at once", async () => {
  const { result, reason } = await startWaiting("hung");
  await noteFailure(writer.records.repository, "hung");
  expect(await result).toMatchObject({ outcome: "fenced", taskId: "hung" });
  expect(String(await reason)).toContain("revoked");
});

test("an agent whose task another one takes stops at once, and the error names the owner", async () => {
  const { result, reason } = await startWaiting("passed");
  await (await writer.client("successor")).takeTask("passed");
  expect(await result).toMatchObject({ outcome: "fenced", taskId: "passed" });
  expect(String(await reason)).toContain("the task was passed to successor;");
});

const complete: AgentOptions["work"] = async (one) => {
  for (const item of one.items()) await one.done(item);
};

test("a program that is started again after its task has ended changes nothing, unless it reopens the task", async () => {
  const options = { type: "qa", task: "over", begin: { pending_items: ["one"] }, work: complete };
  const first = await writer.runAgent("again", options);
  expect(first.outcome).toBe("completed");
  const before = await head("over");
  const second = await writer.runAgent("again", {
    ...options,
    work: () => Promise.reject(new Error("never")),
  });
  expect(second).toEqual({ ...first, outcome: "already_ended" });
  expect(await head("over")).toEqual(before);
  const third = await writer.runAgent("again", { ...options, reopen: true, work: (one) => one.done("two") });
  expect(third.outcome).toBe("completed");
  expect(await head("over")).toMatchObject({ state: "completed", fence: 2 });
});
