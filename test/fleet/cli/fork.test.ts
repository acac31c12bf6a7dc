// `fleet fork` and `task.fork()` of the SDK against a standalone fleet: a new task from a checkpoint of another agent's task.

import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

let server: TestFleet;

beforeAll(async () => {
  server = await startFleet();
});
afterAll(() => server?.stop());

const fleet = (...argv: string[]): Promise<Result> =>
  callCli(argv, {
    env: {
      FLEET_URL: server.url,
      FLEET_HOME: server.home,
      FLEET_SPOOL_DIR: join(server.home, "spool"),
      FLEET_AGENT_ID: "operator",
    },
  });

/** A task of another agent, with two checkpoints. */
async function source(task: string): Promise<{ first: string; second: string }> {
  const owner = await (await server.client("owner")).takeTask(task, { deadlineMs: 60_000 });
  const first = await owner.checkpoint(input({ goal: "log people in" }), { deadlineMs: 60_000 });
  const second = await owner.checkpoint(input({ goal: "log people in" }), { deadlineMs: 60_000 });
  return { first: first.checkpointId, second: second.checkpointId };
}

test("an operator forks a running task, and sees the origin, the next steps and both audit trails", async () => {
  const { first, second } = await source("auth");
  const forked = await fleet("fork", "auth", "--as", "auth-oauth", "--note", "try OAuth");
  expect(forked).toMatchObject({ exit: 0, err: "" });
  expect(forked.out).toMatch(/^Task forked: chk-/);
  expect(forked.out).toContain(`From: chk-${second}, version 1, of task auth`);
  expect(forked.out).toContain("fleet fence take auth-oauth, then ");
  const earlier = await fleet("fork", "auth", "--from", `chk-${first}`, "--json");
  const answer = JSON.parse(earlier.out);
  expect(answer).toMatchObject({
    status: "committed",
    forked_from: { task_id: "auth", checkpoint_id: first },
  });
  expect(answer.task_id).toBe(`auth-fork-${answer.command_id.slice(-8)}`);

  const shown = await fleet("checkpoint", "show", answer.checkpoint_id);
  expect(shown.out).toContain(`Forked from`);
  expect(shown.out).toContain("of task auth");
  const prompt = await fleet("resume", "auth-oauth", "--no-workspace");
  expect(prompt.out).toContain(`begins with the state of checkpoint chk-${second} of task auth`);
  for (const task of ["auth", "auth-oauth"]) {
    expect(await fleet("audit", "verify", task)).toMatchObject({ exit: 0 });
  }
  expect(JSON.parse((await fleet("task", "show", "auth", "--json")).out)).toMatchObject({
    owner: "owner",
    fence: 1,
    seq: 2,
  });
}, 180_000);

test("a fork into an existing task and of an unknown one is refused with its exit code", async () => {
  await source("taken");
  expect(await fleet("fork", "taken", "--as", "taken")).toMatchObject({ exit: 5, out: "" });
  const unknown = await fleet("fork", "unknown", "--json");
  expect(JSON.parse(unknown.err).error).toMatchObject({ code: "NOT_FOUND", details: { task_id: "unknown" } });
}, 120_000);

test("an agent forks the task of another agent by the SDK, and a repeated call gets the first answer", async () => {
  const { first } = await source("sdk");
  const client = await server.client("forker");
  const options = { from: first, goal: "another goal", commandId: uuidv7(), deadlineMs: 60_000 };
  const outcome = await client.task("sdk").fork("sdk-fork", options);
  expect(outcome).toMatchObject({
    outcome: "committed",
    taskId: "sdk-fork",
    forkedFrom: { task_id: "sdk", checkpoint_id: first, version: 1 },
  });
  await server.kill9();
  await server.start();
  const again = await client.task("sdk").fork("sdk-fork", options);
  expect(again).toEqual({ ...outcome, replayed: true });
  const own = await client.takeTask("sdk-fork", { deadlineMs: 60_000 });
  const next = await own.resume({ deadlineMs: 60_000 });
  expect(next?.execution_state.goal).toBe("another goal");
  const written = await own.checkpoint(input({ goal: "another goal" }), { deadlineMs: 60_000 });
  expect((await client.getCheckpoint(written.checkpointId))?.metadata.parent_ids).toEqual([
    outcome.checkpointId,
  ]);
  expect((await client.verifyAudit("sdk")).ok).toBe(true);
}, 180_000);
