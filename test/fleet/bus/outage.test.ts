// An agent that continues to work while its fleet is killed. Afterwards every accepted command is in the store, once and in order, and a
// command that could not be applied is a dead letter for an operator.

import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CheckpointInput, CheckpointOutcome, FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";

let fleet: TestFleet;
let agent: FleetClient;

beforeAll(async () => {
  // The agent may write more checkpoints than retention keeps of a task.
  fleet = await startFleet({ FLEET_LOG_LEVEL: "warn", FLEET_RETENTION_EVERY: "off" });
  agent = await fleet.client("agent");
});
afterAll(() => fleet.stop());

const checkpoint = (n: number): CheckpointInput => ({
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing", completed_items: [`step ${n}`] },
});

async function cli(line: string) {
  const env = {
    FLEET_URL: fleet.url,
    FLEET_HOME: fleet.home,
    FLEET_SPOOL_DIR: join(fleet.home, "spool"),
    FLEET_AGENT_ID: "operator",
  };
  const { exit, out, err } = await callCli([...line.split(" "), "--json"], { env });
  expect({ exit, err }, line).toEqual({ exit: 0, err: "" });
  return JSON.parse(out);
}

test("committed, spooled, queued, committed: one history", async () => {
  const outcomes: CheckpointOutcome[] = [];
  let n = 0;
  const work = async () =>
    outcomes.push(await agent.createCheckpoint({ taskId: "work", checkpoint: checkpoint(n++) }));
  await work();
  await fleet.kill9();
  for (let i = 0; i < 20; i += 1) await work();
  expect(outcomes.at(-1)?.outcome).toBe("spooled");
  // The agent continues while the fleet starts, by the spool, the queue or the writer.
  const start = fleet.start();
  let isUp = false;
  void start.then(() => {
    isUp = true;
  });
  while (!isUp && n < 500) await work();
  await start;
  expect(await agent.flush({ deadlineMs: 30_000 })).toMatchObject({ commands: 0 });
  // Commands are queued as long as the queue is not empty, and on a loaded machine also when the writer answers late.
  await expect
    .poll(
      async () => {
        await work();
        return outcomes.at(-1)?.outcome;
      },
      // At a pace that leaves the writer time for the queue.
      { timeout: 120_000, interval: 1_000 },
    )
    .toBe("committed");
  const { checkpoints } = await agent.getCheckpointHistory("work", { limit: 1_000, order: "oldest" });
  expect(checkpoints.map(({ metadata }) => metadata.checkpoint_id)).toEqual(
    outcomes.map(({ checkpointId }) => checkpointId),
  );
  expect((await agent.verifyAudit("work")).ok).toBe(true);
}, 300_000);

test("a command that could not be applied is a dead letter, which an operator retries and drops", async () => {
  await fleet.kill9();
  const missing = uuidv7();
  const lost = await agent.updateCheckpoint(missing, { metadata: { iteration: 2 } }, { taskId: "work" });
  expect(lost.outcome).toBe("spooled");
  await fleet.start();
  expect(await agent.flush({ deadlineMs: 30_000 })).toMatchObject({ commands: 0 });
  const letters = () => expect.poll(async () => (await cli("queue dead list")).letters, { timeout: 60_000 });
  await letters().toMatchObject([
    { reason: "not_found", task_id: "work", agent_id: "agent", command_id: lost.commandId, op: "update" },
  ]);
  const [{ seq }] = (await cli("queue dead list")).letters;
  expect(await cli(`queue dead retry ${seq}`)).toMatchObject({ seq, command_id: lost.commandId });
  await letters().toMatchObject([{ reason: "not_found", command_id: lost.commandId }]);
  const [again] = (await cli("queue dead list")).letters;
  expect(again.seq).toBeGreaterThan(seq);
  expect(await cli(`queue dead drop ${again.seq}`)).toEqual({ seq: again.seq, command_id: lost.commandId });
  expect(await cli("queue status")).toMatchObject({ depth: 0, dead: 0, store: "ok" });
}, 180_000);
