// Zombies: agents that are stopped during their work, superseded and continued. They are real processes, and their answers are compared
// with the stored records.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { CheckpointInput } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";

interface Line {
  readonly fence?: number;
  readonly committed?: string;
  readonly refused?: string;
}

interface OwnerProcess {
  readonly lines: Line[];
  /** Resolves when the process has written `count` lines of that kind. */
  wrote(kind: keyof Line, count: number): Promise<void>;
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<number | null>;
}

let fleet: TestFleet;
const children: ChildProcess[] = [];

beforeAll(async () => {
  // An owner may write more checkpoints than retention keeps of a task.
  fleet = await startFleet({ FLEET_LOG_LEVEL: "warn", FLEET_RETENTION_EVERY: "off" });
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});
afterAll(() => fleet?.stop());

function startOwner(agent: string, task: string): OwnerProcess {
  const child = spawn(process.execPath, ["test/fleet/bus/owner.program.ts", fleet.url, agent, task], {
    cwd: projectRoot,
    env: { ...process.env, FLEET_HOME: fleet.home },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const lines: Line[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on("line", (text) => lines.push(JSON.parse(text) as Line));
  return {
    lines,
    async wrote(kind, count) {
      while (lines.filter((line) => kind in line).length < count) await once(reader, "line");
    },
    signal: (name) => void child.kill(name),
    ended: once(child, "exit").then(([code]) => code as number | null),
  };
}

const checkpoint: CheckpointInput = {
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing" },
};

test("a stopped owner that continues cannot overwrite the next owner's checkpoints", async () => {
  const task = "zombie";
  const zombie = startOwner("agent-a", task);
  await zombie.wrote("committed", 20);
  zombie.signal("SIGSTOP");

  const client = await fleet.client("agent-b");
  const handle = await client.takeTask(task, { expectedFence: 1 });
  expect(handle.fence).toBe(2);
  const written: string[] = [];
  for (let i = 0; i < 10; i += 1) written.push((await handle.checkpoint(checkpoint)).checkpointId ?? "");
  zombie.signal("SIGCONT");
  await zombie.wrote("refused", 1);
  for (let i = 0; i < 10; i += 1) written.push((await handle.checkpoint(checkpoint)).checkpointId ?? "");
  expect(await zombie.ended).toBe(0);

  expect(zombie.lines.flatMap(({ refused }) => refused ?? [])).toEqual(Array(5).fill("FENCED"));
  const { checkpoints } = await client.getCheckpointHistory(task, { order: "oldest", limit: 1_000 });
  const by = (agent: string) => checkpoints.filter(({ metadata }) => metadata.agent_id === agent);
  expect(by("agent-b").map(({ metadata }) => metadata.checkpoint_id)).toEqual(written);
  // Its last write may have been in flight when it was stopped. Every acknowledged write is stored, and all are before the take.
  const stored = by("agent-a").map(({ metadata }) => metadata.checkpoint_id);
  expect(stored).toEqual(expect.arrayContaining(zombie.lines.flatMap(({ committed }) => committed ?? [])));
  expect(checkpoints.slice(0, stored.length)).toEqual(by("agent-a"));
  await handle.release();
  expect(await handle.state()).toMatchObject({ owner: null, fence: 2, seq: checkpoints.length });
  expect((await client.verifyAudit(task)).ok).toBe(true);
}, 60_000);

test("of two processes of one agent only the last to take the task can write, even after a crash of the fleet", async () => {
  const task = "twins";
  const first = startOwner("agent-a", task);
  await first.wrote("committed", 5);
  const second = startOwner("agent-a", task);
  expect(await first.ended).toBe(0);
  expect(first.lines.flatMap(({ refused }) => refused ?? [])).toEqual(Array(5).fill("FENCED"));
  await second.wrote("committed", 5);
  await fleet.kill9();
  await fleet.start();
  const before = second.lines.filter(({ committed }) => committed !== undefined).length;
  await second.wrote("committed", before + 5);
  const client = await fleet.client("agent-b");
  expect(await client.getTask(task)).toMatchObject({ owner: "agent-a", fence: 2 });
  await client.takeTask(task);
  expect(await second.ended).toBe(0);
  expect(second.lines.flatMap(({ refused }) => refused ?? [])).toEqual(Array(5).fill("FENCED"));
}, 60_000);

test("one of many clients that take a task with the same expected fence becomes its owner", async () => {
  const clients = await Promise.all(Array.from({ length: 16 }, (_, i) => fleet.client(`taker-${i}`)));
  const results = await Promise.allSettled(
    clients.map((client) => client.takeTask("contended", { expectedFence: 0 })),
  );
  const winners = clients.filter((_, i) => results[i]?.status === "fulfilled");
  expect(winners).toHaveLength(1);
  for (const result of results)
    if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "CONFLICT" });
  expect(await clients[0]?.getTask("contended")).toMatchObject({ owner: winners[0]?.agentId, fence: 1 });
}, 60_000);
