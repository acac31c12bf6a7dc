// A secret of the agent stands in its environment and in what it writes. After real runs no file of spool, queue, bus and store has it.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FleetRequests } from "../../../../services/gateway/acts/fleet-requests.ts";
import type { AdmittedCaller } from "../../../../services/gateway/callers/pool.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { Redaction } from "../../../../shared/sdk/redaction/redaction.ts";
import { type FleetWarning, newCommandId, runAgent } from "../../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { SECRETS } from "../../protocol/secrets.ts";

const CANARY = "Canary-7f/Qz+Vk9=Wm4";
const UNKNOWN = SECRETS["GitHub token"]!;
/** In the bytes of every file it is one of these. */
const TRACES = [CANARY, "Canary-7f", UNKNOWN, Buffer.from(`:${CANARY}`).toString("base64").slice(4, 20)];

let fleet: InProcessFleet;
const root = mkdtempSync(join(tmpdir(), "fleet-canary-"));
const env = { DEPLOY_TOKEN: CANARY };

beforeAll(async () => {
  fleet = await openInProcessFleet();
});
afterAll(async () => {
  await fleet.close();
  rmSync(root, { recursive: true, force: true });
});

const work = (note: string) => ({
  metadata: { agent_type: "qa" },
  execution_state: {
    phase: "testing" as const,
    goal: `deploy ${note} with ${CANARY}`,
    completed_items: [`curl -H 'Authorization: Basic ${Buffer.from(`app:${CANARY}`).toString("base64")}'`],
    partial_work: `git clone https://x:${UNKNOWN}@github.com/a/b`,
  },
});

/** The files below a folder that have a trace of a secret. */
function tracesIn(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  expect(files.length).toBeGreaterThan(0);
  return files
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => {
      const bytes = readFileSync(path);
      return TRACES.some((trace) => bytes.includes(trace));
    });
}

describe("no file has the secret", () => {
  test("after a run of an agent, with redaction as it is by default", async () => {
    const warnings: FleetWarning[] = [];
    const onWarning = (warning: FleetWarning) => void warnings.push(warning);
    const client = await fleet.client("agent-1", { env, onWarning });
    const { outcome } = await runAgent({
      fleet: client,
      type: "qa",
      task: "run",
      begin: { goal: `deploy with ${CANARY}`, pending_items: [`use ${UNKNOWN}`] },
      log: () => {},
      async work(run) {
        for (const item of run.items()) {
          run.decide(`the token is ${encodeURIComponent(CANARY)}`, "it works");
          await run.done(item);
        }
      },
    });
    expect(outcome).toBe("completed");
    const stored = await client.getLatestCheckpoint("run");
    expect(stored?.execution_state.goal).toBe("deploy with [redacted: known secret]");
    expect(warnings.map(({ code }) => code)).toContain("REDACTED");
    expect(JSON.stringify(warnings)).not.toMatch(/Canary|Qz7Vk9/);
  });

  test("in the store, after commands of a client with redaction", async () => {
    const client = await fleet.client("agent-2", { env, redaction: "on" });
    const task = await client.takeTask("on");
    const created = await task.checkpoint(work("first"));
    expect(created).toMatchObject({
      outcome: "committed",
      redacted: [
        { path: "/checkpoint/execution_state/goal", rule: "known secret" },
        { path: "/checkpoint/execution_state/completed_items/0", rule: "known secret" },
        { path: "/checkpoint/execution_state/partial_work", rule: "GitHub token" },
      ],
    });
    const patch = { execution_state: { goal: `now ${CANARY}` } };
    const updated = await task.update(created.checkpointId, patch);
    expect(updated.redacted).toEqual([{ path: "/patch/execution_state/goal", rule: "known secret" }]);
    const handoff = await task.handOff({ reason: `see ${CANARY}` });
    expect(handoff.redacted).toEqual([{ path: "/reason", rule: "known secret" }]);
    const fork = await task.fork("forked", { goal: `copy ${CANARY}` });
    expect(fork.redacted).toEqual([{ path: "/goal", rule: "known secret" }]);
    const mission = client.mission("mission-1");
    await mission.start({ title: `ship ${CANARY}` });
    const sent = await mission.send({ to: ["agent-1"], subject: `use ${CANARY}`, body: UNKNOWN });
    expect(sent).toMatchObject({ redacted: [{ path: "/subject" }, { path: "/body" }] });
    const counts = (await fleet.metrics.redactedTotal.get()).values;
    expect(counts.find(({ labels }) => labels.rule === "known secret")?.value).toBeGreaterThanOrEqual(6);
  });

  test("in the queue and in the spool", async () => {
    await fleet.stopFirst();
    const spoolDir = join(root, "spool");
    const options = { env, redaction: "on", fallback: "spool", spoolDir } as const;
    const client = await fleet.client("agent-3", options);
    const queued = await client.createCheckpoint({ taskId: "queued", checkpoint: work("queued") });
    expect(queued).toMatchObject({ outcome: "queued" });
    expect(queued.redacted).toHaveLength(3);
    await fleet.nats.kill9();
    const spooled = await client.createCheckpoint({ taskId: "spooled", checkpoint: work("spooled") });
    expect(spooled).toMatchObject({ outcome: "spooled" });
    expect(spooled.redacted).toHaveLength(3);
    expect(tracesIn(spoolDir)).toEqual([]);
    expect(tracesIn(fleet.nats.dir)).toEqual([]);
    await fleet.nats.restart();
    await fleet.startWriter();
    await client.flush({ deadlineMs: 30_000 });
    await fleet.drained();
    expect((await fleet.letters()).length).toBe(0);
  });

  test("in a command over HTTP", async () => {
    const caller = { tenant: "default", name: "agent-1", bus: fleet.bus } as unknown as AdmittedCaller;
    const settings = { redaction: "on", secretNames: [], secretsFile: undefined } as const;
    const redaction = new Redaction({ mode: "on", settings, env, log: undefined });
    const requests = new FleetRequests(caller, {
      request: { id: "1", address: "127.0.0.1" },
      clock: systemClock,
      signal: new AbortController().signal,
      redaction,
    });
    const members = { command_id: newCommandId(), checkpoint: work("http") };
    const answer = await requests.command("create", "http", members);
    expect(answer).toMatchObject({ status: "committed", redacted: [{}, {}, {}] });
  });

  test("anywhere after all of this", async () => {
    const { path } = fleet.records;
    expect(tracesIn(fleet.nats.dir)).toEqual([]);
    expect(tracesIn(path)).toEqual([]);
  });
});

test("without redaction the same files have it, so that this test can fail", async () => {
  const client = await fleet.client("agent-4", { env, redaction: "off" });
  const kept = await client.createCheckpoint({ taskId: "off", checkpoint: work("off") });
  expect(kept).toMatchObject({
    outcome: "committed",
    execution_state: { goal: `deploy off with ${CANARY}` },
  });
  expect(kept).not.toHaveProperty("redacted");
  expect(tracesIn(fleet.records.path)).not.toEqual([]);
  // A writer would commit the command and erase its message before the files are read.
  await fleet.stopAll();
  await fleet.enqueue("create", { command_id: newCommandId(), checkpoint: work("queue") }, { task: "off-2" });
  await expect.poll(() => tracesIn(fleet.nats.dir)).not.toEqual([]);
  await fleet.startWriter();
  await fleet.startReader();
});

test("a repeated command has the same bytes", async () => {
  const client = await fleet.client("agent-5", { env, redaction: "on" });
  const commandId = newCommandId();
  const call = { taskId: "again", checkpoint: work("again"), commandId };
  const first = await client.createCheckpoint(call);
  const second = await client.createCheckpoint(call);
  expect([first, second]).toMatchObject([{ replayed: false }, { replayed: true }]);
  expect(second.redacted).toEqual(first.redacted);
});

test("commands are sent in the order of the calls", async () => {
  const client = await fleet.client("agent-6", { env, redaction: "on" });
  const task = await client.takeTask("order");
  const large = { ...work("large"), context_summary: { assumptions: Array(3_000).fill("x".repeat(200)) } };
  const outcomes = await Promise.all([task.checkpoint(large), task.checkpoint(work("small"))]);
  expect(outcomes.map((one) => one.outcome === "committed" && one.seq)).toEqual([1, 2]);
  const unsearched = await fleet.client("agent-6", { env });
  const captured = unsearched.task("order-2");
  captured.capture();
  const first = captured.checkpoint(large);
  const second = { taskId: "order-2", checkpoint: work("small") };
  const mixed = Promise.all([first, unsearched.createCheckpoint(second)]);
  // Read when it was called.
  second.checkpoint.execution_state.goal = "changed later";
  const [, small] = (await mixed) as [object, { seq: number; execution_state: { goal: string } }];
  expect(small).toMatchObject({ seq: 2, execution_state: { goal: `deploy small with ${CANARY}` } });
});

test("the path of a lock stays, because it names the file", async () => {
  const client = await fleet.client("agent-8", { env: { DEPLOY_TOKEN: "locks/Qz7Vk9" }, redaction: "on" });
  const mission = client.mission("mission-locks");
  await mission.start({ title: "locks" });
  const lock = await mission.lock("locks/Qz7Vk9.ts", { purpose: "for locks/Qz7Vk9" });
  expect(lock.path).toBe("locks/Qz7Vk9.ts");
  await lock.release();
});

test("the log says how many, without values", async () => {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const log = createLogger({ service: "sdk", level: "info", destination });
  const client = await fleet.client("agent-7", { env, redaction: "on", log });
  await client.createCheckpoint({ taskId: "log", checkpoint: work("log") });
  const line = lines.find((one) => one.includes("secrets removed"));
  expect(JSON.parse(line ?? "{}")).toMatchObject({
    task_id: "log",
    secrets: 3,
    rules: { "known secret": 2, "GitHub token": 1 },
  });
  expect(lines.join("")).not.toMatch(/Canary/);
});
