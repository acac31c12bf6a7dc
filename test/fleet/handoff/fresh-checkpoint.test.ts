// Before a task is reassigned, its live owner is asked for a fresh checkpoint (seed 003): a real fleet, and an agent of the SDK in a process
// that answers, hangs or is gone.

import { afterAll, beforeAll, expect, test } from "vitest";
import { type FleetClient, runAgent } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";

let fleet: TestFleet;
let client: FleetClient;

beforeAll(async () => {
  fleet = await startFleet();
  client = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
});
afterAll(() => fleet?.stop());

/** An agent that has done something since its last checkpoint, and waits. `end` stops it and resolves when it has ended. */
async function workingAgent(task: string): Promise<{ end: () => Promise<void> }> {
  const stopping = new AbortController();
  const agent = await fleet.client(`${task}-agent`);
  let working: () => void = () => {};
  const started = new Promise<void>((resolve) => {
    working = resolve;
  });
  const run = runAgent({
    fleet: agent,
    type: "implementation",
    task,
    begin: { goal: "Add a form" },
    signal: stopping.signal,
    work: async (run) => {
      run.decide("One file because it is small");
      working();
      await new Promise((_, reject) => run.signal.addEventListener("abort", () => reject(run.signal.reason)));
    },
  }).catch(() => {});
  await started;
  return {
    end: async () => {
      stopping.abort();
      await run;
    },
  };
}

const decisionsOf = async (task: string, id: string) => {
  const checkpoint = await client.getCheckpoint(id, { deadlineMs: 20_000 });
  expect(checkpoint?.metadata).toMatchObject({ task_id: task, agent_id: `${task}-agent` });
  return checkpoint?.context_summary.key_decisions.map(({ decision }) => decision);
};

test("seed 003 US-002: a reassignment goes from the checkpoint that its owner writes first, with the reason, to the next agent", async () => {
  const { end } = await workingAgent("asked");
  // The first checkpoint is older than a fresh one.
  await expect
    .poll(
      async () => {
        const latest = await client.latest("asked", { deadlineMs: 20_000 });
        return Date.now() - Date.parse(latest.checkpoint?.metadata.committed_at ?? "");
      },
      { timeout: 20_000 },
    )
    .toBeGreaterThan(2_000);
  const { exit, err, out } = await callCli(
    ["handoff", "create", "asked", "--fence", "1", "--reason", "another type", "--json"],
    {
      env: { FLEET_HOME: fleet.home },
    },
  );
  expect({ exit, err }).toEqual({ exit: 0, err: "" });
  const handoff = await client.handoffOf("asked", { deadlineMs: 20_000 });
  expect(out).toContain(handoff?.handoff_id);
  expect(await decisionsOf("asked", handoff?.checkpoint_id ?? "")).toEqual(["One file because it is small"]);
  const { checkpoint } = await client.latest("asked", { deadlineMs: 20_000 });
  expect(checkpoint?.metadata.trigger.reason).toBe("reassignment");
  expect(handoff?.reason).toBe("another type");
  await end();
  const prompts: string[] = [];
  const next = await runAgent({
    fleet: await fleet.client("next-agent"),
    type: "implementation",
    work: async (run) => void prompts.push(run.prompt ?? ""),
  });
  expect(next.taskId).toBe("asked");
  expect(prompts[0]).toContain("One file because it is small");
  expect(prompts[0]).toContain("another type");
});

test("an owner that is gone costs no time, and one without requests is absent", async () => {
  const gone = await fleet.client("gone-agent");
  await (await gone.takeTask("gone")).checkpoint({
    metadata: { agent_type: "implementation" },
    execution_state: { phase: "implementing" },
  });
  await gone.close();
  await expect
    .poll(async () => (await client.requestCheckpoint("gone", { deadlineMs: 600_000 })).result, {
      timeout: 20_000,
    })
    .toBe("absent");
});

test("an owner that does not answer in time is silent, and the last checkpoint counts", async () => {
  const deaf = await fleet.client("deaf-agent");
  const task = await deaf.takeTask("deaf");
  await task.checkpoint({
    metadata: { agent_type: "implementation" },
    execution_state: { phase: "implementing" },
  });
  const stop = await deaf.onCheckpointRequest(() => {});
  await expect
    .poll(async () => (await client.requestCheckpoint("deaf", { deadlineMs: 300 })).result, {
      timeout: 20_000,
    })
    .toBe("silent");
  await stop();
});

test("a task without an owner is not asked for", async () => {
  expect(await client.requestCheckpoint("unknown", { deadlineMs: 20_000 })).toEqual({
    result: "unowned",
    checkpointId: null,
  });
});
