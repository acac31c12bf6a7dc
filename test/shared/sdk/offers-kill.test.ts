/**
 * Takers of offers killed between each two steps, as processes of their own on a real fleet: the task has one owner at the end, the
 * offer comes to the next taker while nobody has the task, and to nobody's work once somebody has.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import { type InProcessFleet, openInProcessWriter } from "../../harness/in-process-fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { offeredTask } from "../../harness/records/handoffs.ts";

type Line = { step: string; fence?: number; checkpointId?: string; code?: string };

let writer: InProcessFleet;
const children: ChildProcess[] = [];

beforeAll(async () => {
  writer = await openInProcessWriter();
});
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await writer?.close();
});

function taker(agentId: string, agentType: string, dies = "") {
  const args = ["test/shared/sdk/taker.program.ts", writer.nats.url, agentId, agentType, dies];
  const child = spawn(process.execPath, args, { cwd: projectRoot, stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const lines: Line[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on("line", (text) => lines.push(JSON.parse(text) as Line));
  const ended = once(child, "exit").then(([, signal]) => signal as string | null);
  return {
    lines,
    ended,
    async said(...steps: string[]): Promise<Line> {
      for (;;) {
        const found = lines.find(({ step }) => steps.includes(step));
        if (found !== undefined) return found;
        await once(reader, "line");
      }
    },
  };
}

const waiting = async () => (await writer.bus.stream(STREAMS.offers).state()).messages;
const record = (id: string) => writer.records.repository.handoff("default", { handoff_id: id });

// An offer in a dead hand comes to the next one when its acknowledgement wait is over; side by side they wait together.
describe.concurrent("a taker that dies", { timeout: 120_000 }, () => {
  test.each([
    ["received", "implementation"],
    ["thinking", "qa"],
  ])("when it has the offer, after %s: the next one gets it and the task", async (dies, type) => {
    const task = `task-${dies}`;
    const dying = taker(`dying-${dies}`, type, dies);
    await dying.said("ready");
    const id = await offeredTask(writer.records, task, type);
    expect(await dying.ended).toBe("SIGKILL");
    expect(await record(id)).toMatchObject({ state: "offered", accepted_by: null });
    const next = taker(`next-${dies}`, type);
    await next.said("begun");
    expect(await record(id)).toMatchObject({ state: "confirmed", accepted_by: `next-${dies}`, fence: 1 });
    const head = await writer.records.repository.task("default", task);
    expect(head).toMatchObject({ owner: `next-${dies}`, fence: 1, handoff_id: null });
    await writer.audit(task);
  });

  test("after it was given the task, before the message knows: nobody else works on it", async () => {
    const [task, type] = ["task-acknowledged", "architecture"];
    const dying = taker("dying-acknowledged", type, "acknowledged");
    await dying.said("ready");
    const id = await offeredTask(writer.records, task, type);
    expect(await dying.ended).toBe("SIGKILL");
    const next = taker("next-acknowledged", type);
    expect(await next.said("refused", "begun")).toEqual({ step: "refused", code: "CONFLICT" });
    expect(await record(id)).toMatchObject({
      state: "accepted",
      accepted_by: "dying-acknowledged",
      fence: 1,
    });
    const head = await writer.records.repository.task("default", task);
    expect(head).toMatchObject({ owner: "dying-acknowledged", fence: 1, handoff_id: id });
    await writer.audit(task);
  });

  test("after its first checkpoint: it is the one owner, and the offer is gone", async () => {
    const [task, type] = ["task-begun", "documentation"];
    const dying = taker("dying-begun", type, "begun");
    await dying.said("ready");
    const id = await offeredTask(writer.records, task, type);
    expect(await dying.ended).toBe("SIGKILL");
    const { checkpointId } = await dying.said("begun");
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

test("no offer is left over", async () => {
  await expect.poll(waiting, { timeout: 20_000, interval: 50 }).toBe(0);
});
