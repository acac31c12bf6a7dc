/**
 * Takers of offers that are killed after each step, as separate processes on a real fleet. The task has one owner at the end. The offer
 * is redelivered to the next taker while the task has no owner, and is void once it has one.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { STREAMS } from "../../../../shared/protocol/subjects.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { projectRoot } from "../../../harness/project-root.ts";
import { offeredTask } from "../../../harness/records/handoffs.ts";

type Line = { step: string; fence?: number; checkpointId?: string; code?: string };

let writer: InProcessFleet;
const children: ChildProcess[] = [];

beforeAll(async () => {
  writer = await openInProcessFleet();
});
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await writer?.close();
});

function taker(agentId: string, agentType: string, dies = "") {
  const args = ["test/shared/sdk/offers/taker.program.ts", writer.nats.url, agentId, agentType, dies];
  const child = spawn(process.execPath, args, { cwd: projectRoot, stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const lines: Line[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on("line", (text) => lines.push(JSON.parse(text) as Line));
  const ended = once(child, "exit").then(([, signal]) => signal as string | null);
  return {
    lines,
    ended,
    async reached(...steps: string[]): Promise<Line> {
      for (;;) {
        const found = lines.find(({ step }) => steps.includes(step));
        if (found !== undefined) return found;
        await once(reader, "line");
      }
    },
  };
}

const offersLeft = async () => (await writer.bus.stream(STREAMS.offers).state()).messages;
const record = (id: string) => writer.records.repository.handoff("default", { handoff_id: id });

// The offer of a dead taker is redelivered after its acknowledgement wait. Concurrent tests share that wait.
describe.concurrent("a taker that dies", { timeout: 120_000 }, () => {
  test.each([
    ["received", "implementation"],
    ["thinking", "qa"],
  ])("after the step %s: the next taker gets the offer and the task", async (dies, type) => {
    const task = `task-${dies}`;
    const dying = taker(`dying-${dies}`, type, dies);
    await dying.reached("ready");
    const id = await offeredTask(writer.records, task, type);
    expect(await dying.ended).toBe("SIGKILL");
    expect(await record(id)).toMatchObject({ state: "offered", accepted_by: null });
    const next = taker(`next-${dies}`, type);
    await next.reached("begun");
    expect(await record(id)).toMatchObject({ state: "confirmed", accepted_by: `next-${dies}`, fence: 1 });
    const head = await writer.records.repository.task("default", task);
    expect(head).toMatchObject({ owner: `next-${dies}`, fence: 1, handoff_id: null });
    await writer.audit(task);
  });

  test("after the acknowledgement, before the message is settled: no other taker gets the task", async () => {
    const [task, type] = ["task-acknowledged", "architecture"];
    const dying = taker("dying-acknowledged", type, "acknowledged");
    await dying.reached("ready");
    const id = await offeredTask(writer.records, task, type);
    expect(await dying.ended).toBe("SIGKILL");
    const next = taker("next-acknowledged", type);
    expect(await next.reached("refused", "begun")).toEqual({ step: "refused", code: "CONFLICT" });
    expect(await record(id)).toMatchObject({
      state: "accepted",
      accepted_by: "dying-acknowledged",
      fence: 1,
    });
    const head = await writer.records.repository.task("default", task);
    expect(head).toMatchObject({ owner: "dying-acknowledged", fence: 1, handoff_id: id });
    await writer.audit(task);
  });

  test("after its first checkpoint: it is the only owner, and the offer is removed", async () => {
    const [task, type] = ["task-begun", "documentation"];
    const dying = taker("dying-begun", type, "begun");
    await dying.reached("ready");
    const id = await offeredTask(writer.records, task, type);
    expect(await dying.ended).toBe("SIGKILL");
    const { checkpointId } = await dying.reached("begun");
    expect(await record(id)).toMatchObject({
      state: "confirmed",
      accepted_by: "dying-begun",
      first_checkpoint_id: checkpointId,
    });
    expect(await writer.records.repository.task("default", task)).toMatchObject({
      owner: "dying-begun",
      fence: 1,
    });
    await writer.audit(task);
  });
});

test("no offer is left in the stream", async () => {
  await expect.poll(offersLeft, { timeout: 20_000, interval: 50 }).toBe(0);
});
