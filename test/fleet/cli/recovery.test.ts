// `fleet recovery start` and `fleet recovery` against a standalone fleet with a watchdog.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RecoveryDryRun } from "../../../services/cli/rendering/recovery/recovery-preview.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import type { RecoveryPage } from "../../../shared/protocol/recovery-queries.ts";
import type { FleetClient, Handoff, Task } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

const SOON = { timeout: 30_000, interval: 100 };
/** Attempts are due so late that only a command starts them. */
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
/** Long enough that no answer is late on a busy machine: after a late answer the command would be queued. */
const LONG_MS = 20_000;

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
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: "operator",
  };
  return callCli(args, { env });
};
async function json<T>(...args: string[]): Promise<T> {
  return JSON.parse((await fleet(...args, "--json")).out) as T;
}

const items = (count: number) => Array.from({ length: count }, (_, i) => `item ${i + 1}`);
const state = (completed: number) => ({
  metadata: { agent_type: "implementation" },
  execution_state: { phase: "implementing" as const, completed_items: items(completed) },
});

/** Makes a task that agent-7 owns, with the given number of checkpoints. */
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
  const failed = { agent_id: "agent-7", agent_type: type, task_id: task, class: failureClass };
  await agent.reportExit(exitReport({ ...failed, details: "exit code 1" }));
}

const stateOf = async (task: string) =>
  (await json<Pick<Task, "recovery">>("recovery", "show", task)).recovery?.state;

/** Accepts the offer of the task and writes the first checkpoint. */
async function acceptAndWrite(task: string, completed: number): Promise<Handoff> {
  const next = await server.client("agent-8");
  await expect.poll(async () => (await next.handoffOf(task))?.state, SOON).toBe("offered");
  const handoff = (await next.handoffOf(task)) as Handoff;
  const { task: handle } = await next.acknowledgeHandoff({
    task_id: task,
    handoff_id: handoff.handoff_id,
    agent_type: "implementation",
    checkpoint: { id: handoff.checkpoint_id },
    digest: handoff.offer_digest ?? "",
  });
  await handle.checkpoint(state(completed));
  return handoff;
}

test("a dry run shows the effect of a recovery, and changes nothing", async () => {
  const [first, second] = await owned("auth", 2);
  expect((await fleet("recovery", "show", "auth")).out).toBe("No agent of task auth has failed.\n");

  const refused = await fleet("recovery", "start", "auth", "--dry-run");
  expect(refused.exit).toBe(5);
  expect(refused.out).toMatch(
    /^The recovery would be refused: its owner counts as alive .*--force takes the task from it\. Nothing was changed\.\n/,
  );
  expect(refused.out).toContain(`From: chk-${second}, checkpoint 2 of the task`);
  expect(refused.out).toContain("Owner: agent-7, fence 1\n");
  const forced = await json<RecoveryDryRun>(
    "recovery",
    "start",
    "auth",
    "--dry-run",
    "--force",
    "--from",
    `chk-${first}`,
  );
  expect(forced).toMatchObject({ dry_run: true, from: { checkpoint_id: first, seq: 1 }, refused: null });
  // The reader must first have listened for long enough, and again after an interruption.
  const toQa = () => fleet("recovery", "start", "auth", "--dry-run", "--force", "--to", "qa");
  let qa = await toQa();
  await expect
    .poll(async () => {
      qa = await toQa();
      return qa.out;
    }, SOON)
    .toMatch(
      /^The task would wait for an agent\. .*\nOffered to: agents of type qa\nAvailable agents: none; /s,
    );
  expect(qa).toMatchObject({ exit: 0, err: "" });
  // By the current policy.
  expect(qa.out).toContain("\nIf none accepts: after 2 offers of 50s each, ");
  const busy = agent.startHeartbeat({ agentType: "qa", state: "working", taskId: "other" }, {});
  await expect
    .poll(async () => (await toQa()).out, SOON)
    .toMatch(/^The task would wait for an agent\. .*\nAvailable agents: agent-7 \(on task other, /s);
  await busy.stop();
  const waiting = agent.startHeartbeat({ agentType: "qa", state: "idle" }, {});
  await expect
    .poll(async () => (await toQa()).out, SOON)
    .toMatch(/^The task would continue\. .*\nAvailable agents: agent-7 \(free, /s);
  await waiting.stop();
  expect(await agent.getTask("auth")).toMatchObject({ owner: "agent-7", fence: 1, recovery: null });
}, 120_000);

test("a recovery takes the task from a hanging agent, and the command follows it to its end", async () => {
  const latest = (await agent.getTask("auth"))?.latest_id;
  const refused = await fleet("recovery", "start", "auth");
  expect(refused).toMatchObject({ exit: 5, out: "" });
  expect(refused.err).toContain("fleet recovery start auth --force");

  const done = await fleet("recovery", "start", "auth", "--force", "--reason", "it goes in circles");
  expect(done).toMatchObject({ exit: 0, err: "" });
  expect(done.out).toMatch(
    /^Recovery requested: task auth\nFrom: the latest sound checkpoint, or the previous one if attempts from it made no progress\nFence: 2; .*\nFollow it: .*fleet recovery show auth\n$/,
  );
  const late = agent.task("auth", { fence: 1 }).checkpoint(state(3), { deadlineMs: LONG_MS });
  await expect(late).rejects.toMatchObject({ code: "FENCED" });

  await expect.poll(() => stateOf("auth"), SOON).toBe("attempted");
  expect((await fleet("recovery", "run", "auth")).exit).toBe(5);
  const open = (await agent.handoffOf("auth"))?.handoff_id;
  expect((await fleet("recovery", "list", "--state", "attempted")).out).toMatch(
    /\nauth +attempted +1 +request \(taken from agent-7\) +\S.* +waits for an agent \(implementation\)\n/,
  );
  // A reader that was interrupted must listen again first.
  await expect
    .poll(async () => (await fleet("recovery", "show", "auth")).out, SOON)
    .toContain("\nWaits for: agents of type implementation\nAvailable agents: none; ");
  const again = await fleet("recovery", "start", "auth", "--reason", "it goes in circles");
  expect(again).toMatchObject({ exit: 0, err: "" });
  expect(again.out).toContain(`\nCancelled: handoff ${open}, which was attempt 1 and counts\n`);
  await expect.poll(() => stateOf("auth"), SOON).toBe("attempted");
  const handoff = await acceptAndWrite("auth", 2);
  expect(handoff).toMatchObject({ checkpoint_id: latest, reason: "it goes in circles" });
  expect((await fleet("handoff", "show", "auth")).out).toContain(
    "Recovery: attempt 2, requested\nReason: it goes in circles\n",
  );
  expect(await stateOf("auth")).toBe("resumed");
  expect((await fleet("task", "show", "auth")).out).toMatch(
    /\nRecovery: resumed, 2 attempts after request \(taken from agent-7\); waits for progress\n/,
  );
}, 120_000);

test("a waiting recovery is listed and run before it is due, and a blocked one is reset", async () => {
  await owned("later");
  await report("later", "crash");
  await expect.poll(() => stateOf("later"), SOON).toBe("waiting");
  const listed = await fleet("recovery", "list", "--state", "waiting");
  expect(listed.out).toMatch(/\nlater +waiting +0 of 5 +crash of agent-7 +\S.* +attempt in \d+m\n/);
  expect((await fleet("recovery", "show", "later")).out).toContain("  details: exit code 1\n");
  expect((await fleet("recovery", "run", "later")).exit).toBe(0);
  const handoff = await acceptAndWrite("later", 2);
  expect(handoff).toMatchObject({
    recovery: { attempt: 1, class: "crash" },
    reason: "attempt 1 after agent-7 failed: crash, exit code 1",
  });
  expect((await fleet("handoff", "show", "later")).out).toContain(
    "Recovery: attempt 1, after an agent failed (crash)\n",
  );
  // The task has made progress.
  expect(await stateOf("later")).toBe("idle");

  await owned("broke");
  await report("broke", "unrecoverable");
  await expect.poll(() => stateOf("broke"), SOON).toBe("blocked");
  const page = await json<RecoveryPage>("recovery", "list", "--state", "blocked");
  expect(page.tasks).toMatchObject([{ task_id: "broke", blocked: { reason: "unrecoverable" } }]);
  const shown = await fleet("recovery", "show", "broke");
  expect(shown.out).toContain("\nBlocked: unrecoverable, ");
  expect(shown.out).toMatch(/Fix the cause, then .*\n.*\n.*\n {2}.*fleet recovery reset broke\n$/);
  expect(await fleet("recovery", "reset", "broke", "--reason", "the key is renewed")).toMatchObject({
    exit: 0,
    err: "",
  });
  expect((await fleet("recovery", "show", "broke")).out).toContain(
    "\nRequested: by operator: the key is renewed\n",
  );
  expect((await acceptAndWrite("broke", 2)).reason).toContain("the key is renewed");
  expect(await stateOf("broke")).toBe("idle");
}, 120_000);

test("all blocked tasks are retried, first those of one agent type, and failures are reported", async () => {
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
  // A task without a checkpoint to continue from.
  await agent.takeTask("night-0");
  await report("night-0", "unrecoverable");
  await expect.poll(() => stateOf("night-0"), SOON).toBe("blocked");

  const first = await fleet("recovery", "reset", "--blocked", "--agent-type", "qa", "--yes", "--json");
  expect(first.exit).toBe(0);
  expect(lines(first.out)).toMatchObject([{ task_id: "night-3", outcome: "asked", fence: 3 }]);
  expect(JSON.parse(first.err)).toEqual({ note: "1 requested" });
  const unconfirmed = await fleet("recovery", "reset", "--blocked");
  expect(unconfirmed).toMatchObject({ exit: 64, out: "", err: expect.stringContaining("give --yes") });
  const rest = await fleet("recovery", "reset", "--blocked", "--yes", "--reason", "the key is renewed");
  expect(rest.exit).toBe(0);
  expect(rest.out).toBe(
    ["1 of 2  night-1  recovery requested, fence 3", "2 of 2  night-2  recovery requested, fence 3\n"].join(
      "\n",
    ),
  );
  expect(rest.err).toMatch(
    /^TASK .*\n.*\n.*\n\n2 tasks\n\nSkipped, because it has no checkpoint; .*\n\nTASK .*\nnight-0 .*\n2 requested\n$/,
  );
  for (const task of tasks) {
    const { reason } = await acceptAndWrite(task, 2);
    if (task !== "night-3") expect(reason).toContain("the key is renewed");
  }
  const none = await fleet("recovery", "run", "--blocked", "--agent-type", "qa", "--yes");
  expect(none).toEqual({
    exit: 0,
    out: "",
    err: "There is no blocked task whose agent was of type qa.\n",
  });
  const lacking = await fleet("recovery", "run", "--blocked", "--yes", "--json");
  expect([lacking.exit, ...lines(lacking.out)]).toEqual([
    0,
    { task_id: "night-0", outcome: "needs_checkpoint" },
  ]);
  await (await agent.takeTask("night-0")).checkpoint(state(1));
  // Without blocked tasks there is no question.
  const idle = await fleet("recovery", "run", "--blocked");
  expect(idle).toEqual({ exit: 0, out: "", err: "There is no blocked task.\n" });
}, 180_000);

test("an alert of a task that is blocked again leads to the newer alert", async () => {
  await owned("again");
  const ids = async () =>
    (await agent.admin.listAlerts({ taskId: "again", type: "RECOVERY_BLOCKED" })).alerts.map(
      ({ alert }) => alert.id,
    );
  await report("again", "unrecoverable");
  await expect.poll(ids, SOON).toHaveLength(1);
  const [first = ""] = await ids();
  expect(await fleet("recovery", "reset", "again")).toMatchObject({ exit: 0 });
  await expect.poll(async () => (await agent.handoffOf("again"))?.state, SOON).toBe("offered");
  expect((await fleet("alerts", "show", first)).out).toContain("\nResolved: ");
  expect(await fleet("handoff", "cancel", "again")).toMatchObject({ exit: 0 });
  await expect.poll(ids, SOON).toHaveLength(2);
  const [second = ""] = await ids();
  expect((await fleet("alerts", "show", first)).out).toMatch(
    new RegExp(
      `\\nResolved, but the task is blocked again: .*alerts show ${second}. shows the next step\\.\\n$`,
    ),
  );
  expect((await fleet("alerts", "show", second)).out).not.toContain("blocked again");
}, 120_000);

test.each(["implementation", "qa", "documentation"])(
  "a dry run and the recovery name the same agent type: %s",
  async (type) => {
    const task = `of-${type}`;
    const handle = await agent.takeTask(task);
    await handle.checkpoint({ ...state(1), metadata: { agent_type: type } });
    const typeIn = (text: string, line: string) =>
      new RegExp(`^${line}: agents of type (\\S+)$`, "m").exec(text)?.[1];
    const planned = await fleet("recovery", "start", task, "--dry-run", "--force");
    expect((await fleet("recovery", "start", task, "--force")).exit).toBe(0);
    await expect.poll(async () => (await agent.handoffOf(task))?.state, SOON).toBe("offered");
    const shown = await fleet("recovery", "show", task);
    expect([typeIn(planned.out, "Offered to"), typeIn(shown.out, "Waits for")]).toEqual([type, type]);
    expect((await agent.handoffOf(task))?.to_agent_type).toBe(type);
  },
  120_000,
);

test("each kind of failure has its exit code", async () => {
  await owned("done");
  const { checkpointId } = await agent.task("done", { fence: 1 }).checkpoint({
    metadata: { agent_type: "implementation" },
    execution_state: { phase: "complete" },
  });
  await agent.finalizeCheckpoint(checkpointId, "succeeded", { taskId: "done", fence: 1 });
  await agent.takeTask("empty");
  const calls: [exit: number, args: string[]][] = [
    [4, ["recovery", "start", "nowhere"]],
    [4, ["recovery", "start", "nowhere", "--dry-run"]],
    [4, ["recovery", "show", "nowhere"]],
    [4, ["recovery", "run", "nowhere"]],
    [4, ["recovery", "start", "empty", "--dry-run"]],
    [4, ["recovery", "start", "empty", "--force"]],
    [5, ["recovery", "start", "done", "--force"]],
    [5, ["recovery", "start", "done", "--dry-run", "--force"]],
    [64, ["recovery", "start"]],
    [64, ["recovery", "list", "--state", "tired"]],
    [64, ["recovery", "show", "done", "--state", "blocked"]],
    [65, ["recovery", "start", "done", "--from", "latest"]],
    [65, ["recovery", "start", "empty", "--to", "unknown"]],
    [65, ["recovery", "start", "empty", "--to", "unknown", "--dry-run"]],
    [65, ["recovery", "run", "--blocked", "--agent-type", "unknown"]],
    [64, ["recovery", "reset", "empty", "--dry-run"]],
  ];
  const exits = await Promise.all(calls.map(async ([, args]) => [(await fleet(...args)).exit, args]));
  expect(exits).toEqual(calls);
  expect((await fleet("recovery", "start", "empty", "--force")).err).toMatch(
    /\nWrite one: `.*fleet checkpoint --task empty .*`, then `.*fleet recovery start empty`\.\n$/,
  );
  expect((await fleet("recovery", "reset", "empty", "--dry-run")).err).toMatch(
    /fleet recovery start empty --dry-run/,
  );
  const typo = await fleet("recovery", "run", "--blocked", "--agent-type", "unknown");
  expect(typo.err).toContain("one of architecture, implementation, qa, documentation");
}, 120_000);
