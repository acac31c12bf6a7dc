// `fleet recover` and `fleet recovery` against a standalone fleet, which recovers by itself.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RecoveryDryRun } from "../../../services/cli/rendering/recovery/recovery-preview.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import type { RecoveryPage } from "../../../shared/protocol/queries.ts";
import type { FleetClient, Handoff, Task } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { type Result, resultOf, startCli } from "../../services/cli/process.ts";

const SOON = { timeout: 30_000, interval: 100 };
/** Nothing is retried before somebody says so. */
const POLICY = {
  defaults: {
    offer: { max_attempts: 2, deadline_ms: 50_000 },
    recovery: {
      silence_ms: 60_000,
      actions: { crash: ["back_off"] },
      back_off_ms: 3_000_000,
      back_off_max_ms: 3_000_000,
    },
  },
};

let folder: string;
let server: TestFleet;
let agent: FleetClient;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-recovery-"));
  const policy = join(folder, "policy.json");
  writeFileSync(policy, JSON.stringify(POLICY));
  server = await startFleet({ FLEET_LOG_LEVEL: "warn", FLEET_POLICY: policy });
  agent = await server.client("agent-7");
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const fleet = (...args: string[]): Promise<Result> => {
  const env = {
    FLEET_URL: server.url,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: "person",
  };
  return resultOf(startCli(args, { env }));
};
async function json<T>(...args: string[]): Promise<T> {
  return JSON.parse((await fleet(...args, "--json")).out) as T;
}

const items = (count: number) => Array.from({ length: count }, (_, i) => `item ${i + 1}`);
const state = (completed: number) => ({
  metadata: { agent_type: "implementation" },
  execution_state: { phase: "implementing" as const, completed_items: items(completed) },
});

/** A task of agent-7 with so many checkpoints. */
async function owned(task: string, checkpoints = 1): Promise<string[]> {
  const handle = await agent.takeTask(task);
  const ids: string[] = [];
  for (let n = 1; n <= checkpoints; n += 1) ids.push((await handle.checkpoint(state(n))).checkpointId);
  return ids;
}

async function report(
  task: string,
  failureClass: ExitReport["class"],
  type = "implementation",
): Promise<void> {
  await agent.reportExit({
    agent_id: "agent-7",
    agent_type: type,
    task_id: task,
    fence: 1,
    class: failureClass,
    exit_code: 1,
    signal: null,
    started_at: new Date().toISOString(),
    ended_at: new Date().toISOString(),
    host: "here",
    details: "exit code 1",
  });
}

const stateOf = async (task: string) =>
  (await json<Pick<Task, "recovery">>("recovery", "status", task)).recovery?.state;

/** Whoever is offered the task takes it and writes. */
async function goOn(task: string, completed: number): Promise<Handoff> {
  const next = await server.client("agent-8");
  await expect.poll(async () => (await next.handoffOf(task))?.state, SOON).toBe("offered");
  const handoff = (await next.handoffOf(task)) as Handoff;
  const { task: handle } = await next.acknowledgeHandoff({
    task_id: task,
    handoff_id: handoff.handoff_id,
    agent_type: "implementation",
    checkpoint: { id: handoff.checkpoint_id },
  });
  await handle.checkpoint(state(completed));
  return handoff;
}

test("a dry run shows what a recovery would do, and changes nothing", async () => {
  const [first, second] = await owned("auth", 2);
  expect((await fleet("recovery", "status", "auth")).out).toBe("No agent of task auth has failed.\n");

  const looked = await fleet("recover", "auth", "--dry-run");
  expect(looked.exit).toBe(5);
  expect(looked.out).toMatch(
    /^It would not go on: its agent lives, .*--force takes the task from it\. Nothing was changed\.\n/,
  );
  expect(looked.out).toContain(`From: chk-${second}, number 2`);
  expect(looked.out).toContain("Has the task: agent-7, fence 1");
  const forced = await json<RecoveryDryRun>(
    "recover",
    "auth",
    "--dry-run",
    "--force",
    "--from",
    `chk-${first}`,
  );
  expect(forced).toMatchObject({ dry_run: true, from: { checkpoint_id: first, seq: 1 }, refused: null });
  // Once the fleet has listened for long enough to say so.
  const toQa = () => fleet("recover", "auth", "--dry-run", "--force", "--to", "qa");
  await expect.poll(async () => (await toQa()).out, SOON).toMatch(/^It would wait for an agent\. /);
  const qa = await toQa();
  expect(qa).toMatchObject({ exit: 0, err: "" });
  expect(qa.out).toContain("\nGoes on with: agents of type qa\nSeen of them: none; ");
  // By the policy that holds.
  expect(qa.out).toContain("\nWhen nobody comes: it is offered 2 times, for 50s each; ");
  const busy = agent.startHeartbeat({ agentType: "qa", state: "working", taskId: "other" }, {});
  await expect
    .poll(async () => (await toQa()).out, SOON)
    .toMatch(/\nSeen of them: agent-7 \(at task other, /);
  expect((await toQa()).out).toMatch(/^It would wait for an agent\. /);
  await busy.stop();
  const waiting = agent.startHeartbeat({ agentType: "qa", state: "idle" }, {});
  await expect
    .poll(async () => (await toQa()).out, SOON)
    .toMatch(/^It would go on\. .*\nSeen of them: agent-7 \(free, /s);
  await waiting.stop();
  expect(await agent.getTask("auth")).toMatchObject({ owner: "agent-7", fence: 1, recovery: null });
}, 120_000);

test("a task is taken from an agent that hangs, and the recovery is followed to its end", async () => {
  const latest = (await agent.getTask("auth"))?.latest_id;
  const refused = await fleet("recover", "auth");
  expect(refused).toMatchObject({ exit: 5, out: "" });
  expect(refused.err).toContain("fleet recover auth --force");

  const done = await fleet("recover", "auth", "--force", "--reason", "it goes in circles");
  expect(done).toMatchObject({ exit: 0, err: "" });
  expect(done.out).toMatch(
    /^Recovery asked for: task auth\nFrom: the newest checkpoint that verifies, or the one before if that was tried in vain\nFence: 2; .*\nFollow it: .*fleet recovery status auth\n$/,
  );
  await expect(agent.task("auth", { fence: 1 }).checkpoint(state(3))).rejects.toMatchObject({
    code: "FENCED",
  });

  await expect.poll(() => stateOf("auth"), SOON).toBe("attempted");
  expect((await fleet("recovery", "run", "auth")).exit).toBe(5);
  const open = (await agent.handoffOf("auth"))?.handoff_id;
  expect((await fleet("recovery", "status", "--state", "attempted")).out).toMatch(
    /\nauth +attempted +1 +request, taken from agent-7 +\S.* +waits for an agent \(implementation\)\n/,
  );
  expect((await fleet("recovery", "status", "auth")).out).toContain(
    "\nGoes on with: agents of type implementation\nSeen of them: none; ",
  );
  const again = await fleet("recover", "auth", "--reason", "it goes in circles");
  expect(again).toMatchObject({ exit: 0, err: "" });
  expect(again.out).toContain(`\nComes to nothing: handoff ${open}, which was attempt 1; it counts as one\n`);
  await expect.poll(() => stateOf("auth"), SOON).toBe("attempted");
  const handoff = await goOn("auth", 2);
  expect(handoff).toMatchObject({ checkpoint_id: latest, reason: "it goes in circles" });
  expect((await fleet("handoffs", "show", "auth")).out).toContain(
    "Recovery: attempt 2, asked for\nReason: it goes in circles\n",
  );
  expect(await stateOf("auth")).toBe("resumed");
  expect((await fleet("task", "show", "auth")).out).toMatch(
    /\nRecovery: resumed, 2 attempts after request, taken from agent-7; waits for progress\n/,
  );
}, 120_000);

test("what waits is listed, and run before its time; what is blocked is reset", async () => {
  await owned("later");
  await report("later", "crash");
  await expect.poll(() => stateOf("later"), SOON).toBe("waiting");
  const listed = await fleet("recovery", "status", "--state", "waiting");
  expect(listed.out).toMatch(/\nlater +waiting +0 of 5 +crash of agent-7 +\S.* +attempt in \d+m\n/);
  expect((await fleet("recovery", "status", "later")).out).toContain("  details: exit code 1\n");
  expect((await fleet("recovery", "run", "later")).exit).toBe(0);
  const handoff = await goOn("later", 2);
  expect(handoff).toMatchObject({
    recovery: { attempt: 1, class: "crash" },
    reason: "attempt 1 after agent-7 failed: crash, exit code 1",
  });
  expect((await fleet("handoffs", "show", "later")).out).toContain(
    "Recovery: attempt 1, after an agent failed (crash)\n",
  );
  // More got done than before.
  expect(await stateOf("later")).toBe("idle");

  await owned("broke");
  await report("broke", "unrecoverable");
  await expect.poll(() => stateOf("broke"), SOON).toBe("blocked");
  const page = await json<RecoveryPage>("recovery", "status", "--state", "blocked");
  expect(page.tasks).toMatchObject([
    { task_id: "broke", recovery: { blocked: { reason: "unrecoverable" } } },
  ]);
  const shown = await fleet("recovery", "status", "broke");
  expect(shown.out).toContain("\nBlocked: unrecoverable, ");
  expect(shown.out).toMatch(/Fix the cause, then .*\n.*\n.*\n {2}.*fleet recovery reset broke\n$/);
  expect(await fleet("recovery", "reset", "broke", "--reason", "the key is renewed")).toMatchObject({
    exit: 0,
    err: "",
  });
  expect((await fleet("recovery", "status", "broke")).out).toContain(
    "\nAsked for: by person: the key is renewed\n",
  );
  expect((await goOn("broke", 2)).reason).toContain("the key is renewed");
  expect(await stateOf("broke")).toBe("idle");
}, 120_000);

test("after a bad night all that is blocked is tried again, of one type first, and what fails is said", async () => {
  const tasks = ["night-1", "night-2", "night-3"];
  for (const [n, task] of tasks.entries()) {
    await owned(task);
    await report(task, "unrecoverable", n === 2 ? "qa" : "implementation");
    await expect.poll(() => stateOf(task), SOON).toBe("blocked");
  }
  const lines = (out: string) =>
    out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { task_id: string });
  const planned = await fleet("recovery", "run", "--blocked", "--dry-run", "--json");
  expect(lines(planned.out)).toMatchObject(tasks.map((task_id) => ({ task_id, dry_run: true })));
  const shown = await fleet("recovery", "run", "--blocked", "--agent-type", "qa", "--dry-run");
  expect(shown).toMatchObject({ exit: 0, err: "" });
  expect(shown.out).toMatch(
    /^TASK .*\nnight-3 +unrecoverable +\S.* +qa +unrecoverable of agent-7\n\n1 task\n$/,
  );
  expect(await Promise.all(tasks.map(stateOf))).toEqual(["blocked", "blocked", "blocked"]);
  // It was never written to: there is nothing to go on from.
  await agent.takeTask("night-0");
  await report("night-0", "unrecoverable");
  await expect.poll(() => stateOf("night-0"), SOON).toBe("blocked");

  const first = await fleet("recovery", "reset", "--blocked", "--agent-type", "qa", "--yes", "--json");
  expect(first.exit).toBe(0);
  expect(lines(first.out)).toMatchObject([{ task_id: "night-3", outcome: "asked", fence: 3 }]);
  expect(JSON.parse(first.err)).toEqual({ note: "1 asked for" });
  const unasked = await fleet("recovery", "reset", "--blocked");
  expect(unasked).toMatchObject({ exit: 64, out: "", err: expect.stringContaining("give --yes") });
  const rest = await fleet("recovery", "reset", "--blocked", "--yes", "--reason", "the key is renewed");
  expect(rest.exit).toBe(0);
  expect(rest.out).toBe(
    ["1 of 2  night-1  asked for, under fence 3", "2 of 2  night-2  asked for, under fence 3\n"].join("\n"),
  );
  expect(rest.err).toMatch(
    /^TASK .*\n.*\n.*\n\n2 tasks\n\nLeft out, for it needs a checkpoint first; .*\n\nTASK .*\nnight-0 .*\n2 asked for\n$/,
  );
  for (const task of tasks) {
    const { reason } = await goOn(task, 2);
    if (task !== "night-3") expect(reason).toContain("the key is renewed");
  }
  const none = await fleet("recovery", "run", "--blocked", "--agent-type", "qa", "--yes");
  expect(none).toEqual({ exit: 0, out: "", err: "No task is blocked whose agent was of type qa.\n" });
  const lacking = await fleet("recovery", "run", "--blocked", "--yes", "--json");
  expect([lacking.exit, ...lines(lacking.out)]).toEqual([
    0,
    { task_id: "night-0", outcome: "needs_checkpoint" },
  ]);
  await (await agent.takeTask("night-0")).checkpoint(state(1));
  // Nobody is asked about nothing.
  const free = await fleet("recovery", "run", "--blocked");
  expect(free).toEqual({ exit: 0, out: "", err: "No task is blocked.\n" });
}, 180_000);

test("an alert of a task that is blocked anew leads to the newer one", async () => {
  await owned("anew");
  const ids = async () =>
    (await agent.admin.listAlerts({ taskId: "anew", type: "RECOVERY_BLOCKED" })).alerts.map(
      ({ alert }) => alert.id,
    );
  await report("anew", "unrecoverable");
  await expect.poll(ids, SOON).toHaveLength(1);
  const [first = ""] = await ids();
  expect(await fleet("recovery", "reset", "anew")).toMatchObject({ exit: 0 });
  await expect.poll(async () => (await agent.handoffOf("anew"))?.state, SOON).toBe("offered");
  expect((await fleet("alerts", "show", first)).out).toContain("\nIts cause is gone: ");
  expect(await fleet("handoff", "anew", "--cancel")).toMatchObject({ exit: 0 });
  await expect.poll(ids, SOON).toHaveLength(2);
  const [second = ""] = await ids();
  expect((await fleet("alerts", "show", first)).out).toMatch(
    new RegExp(`\\nThe task was blocked anew since: .*alerts show ${second}. says what to do\\.\\n$`),
  );
  expect((await fleet("alerts", "show", second)).out).not.toContain("blocked anew");
}, 120_000);

test("mistakes have their exit codes", async () => {
  await owned("done");
  const { checkpointId } = await agent.task("done", { fence: 1 }).checkpoint({
    metadata: { agent_type: "implementation" },
    execution_state: { phase: "complete" },
  });
  await agent.finalizeCheckpoint(checkpointId, "succeeded", { taskId: "done", fence: 1 });
  await agent.takeTask("empty");
  const calls: [exit: number, args: string[]][] = [
    [4, ["recover", "nowhere"]],
    [4, ["recover", "nowhere", "--dry-run"]],
    [4, ["recovery", "status", "nowhere"]],
    [4, ["recovery", "run", "nowhere"]],
    [4, ["recover", "empty", "--dry-run"]],
    [4, ["recover", "empty", "--force"]],
    [5, ["recover", "done", "--force"]],
    [5, ["recover", "done", "--dry-run", "--force"]],
    [64, ["recover"]],
    [64, ["recovery", "status", "--state", "tired"]],
    [64, ["recovery", "status", "done", "--state", "blocked"]],
    [65, ["recover", "done", "--from", "latest"]],
    [65, ["recover", "empty", "--to", "nobody"]],
    [65, ["recover", "empty", "--to", "nobody", "--dry-run"]],
    [65, ["recovery", "run", "--blocked", "--agent-type", "nobody"]],
    [64, ["recovery", "reset", "empty", "--dry-run"]],
  ];
  const exits = await Promise.all(calls.map(async ([, args]) => [(await fleet(...args)).exit, args]));
  expect(exits).toEqual(calls);
  expect((await fleet("recover", "empty", "--force")).err).toMatch(
    /\nWrite one: `.*fleet checkpoint --task empty .*`, then `.*fleet recover empty`\.\n$/,
  );
  expect((await fleet("recovery", "reset", "empty", "--dry-run")).err).toMatch(
    /fleet recover empty --dry-run/,
  );
  const typo = await fleet("recovery", "run", "--blocked", "--agent-type", "nobody");
  expect(typo.err).toContain("one of architecture, implementation, qa, documentation");
}, 120_000);
