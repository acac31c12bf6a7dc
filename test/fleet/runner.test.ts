/** SDK agents that a runner starts: a real fleet with its coordinator, a real runner and real agents, one of which is killed. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import type { Heartbeat } from "../../shared/protocol/heartbeat.ts";
import { STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import {
  type Checkpoint,
  continuationPrompt,
  type FleetClient,
  type FleetEvent,
} from "../../shared/sdk/sdk.ts";
import { administratorBus } from "../harness/credentials.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";
import { EXAMPLE, startRunner } from "../harness/processes/runner-process.ts";
import type { TestService } from "../harness/processes/services.ts";
import { projectRoot } from "../harness/project-root.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const FAILING = [process.execPath, join(projectRoot, "test/fleet/recovery/failing.program.ts")];

/** A program named `claude` that notes its system prompt and its first message, and waits for its end. */
const CLAUDE = `#!${process.execPath}
const { readFileSync, writeFileSync, renameSync } = require("node:fs");
const [, , ...args] = process.argv;
const system = readFileSync(args[args.indexOf("--append-system-prompt-file") + 1], "utf8");
writeFileSync(process.env.NOTE + ".part", JSON.stringify({ args, system, first: readFileSync(0, "utf8") }));
renameSync(process.env.NOTE + ".part", process.env.NOTE);
setInterval(() => {}, 1_000);
`;

let programs: string;
let fleet: TestFleet;
let client: FleetClient;
let runner: TestService;
let closeBus: Stop;
const reports: ExitReport[] = [];
const beats: Heartbeat[] = [];
const events: FleetEvent[] = [];

beforeAll(async () => {
  programs = mkdtempSync(join(tmpdir(), "fleet-programs-"));
  writeFileSync(join(programs, "claude"), CLAUDE, { mode: 0o755 });
  fleet = await startFleet();
  client = await fleet.client("person");
  await client.onEvent((event) => void events.push(event));
  const bus = await administratorBus(fleet);
  closeBus = () => bus.close();
  const exits = { stream: STREAMS.exits, filter: SUBJECTS.everyExit, from: "all" } as const;
  await bus.follow(exits, ({ body }) => void reports.push(JSON.parse(Buffer.from(body).toString())));
  await bus.subscribe(
    SUBJECTS.everyHeartbeat,
    ({ body }) => void beats.push(JSON.parse(Buffer.from(body).toString())),
  );
  runner = await startRunner(fleet, {
    implementation: { command: EXAMPLE, heartbeats: false },
    architecture: {
      profile: "claude-code",
      env: { PATH: `${programs}:${process.env.PATH}`, NOTE: join(programs, "note.json") },
    },
    documentation: { command: FAILING, heartbeats: false },
    // A shell around the program that restarts it once if it fails.
    qa: { command: ["sh", "-c", '"$@" || "$@"', "twice", ...FAILING], heartbeats: false },
  });
});
afterAll(async () => {
  await runner?.terminate();
  await closeBus?.();
  await fleet?.stop();
  rmSync(programs, { recursive: true, force: true });
});

const SOON = { timeout: 60_000, interval: 20 };
const until = (condition: () => boolean) => expect.poll(condition, SOON).toBe(true);
const named = (type: string, task: string) =>
  events.filter((event) => event.type === type && event.subject === task);
const reportsOf = (task: string) => reports.filter(({ task_id }) => task_id === task);

/** Hands a new task off; resolves with the id of the handoff. */
async function handedOff(task: string, agentType: string, items: string[]): Promise<string> {
  const outcome = await client.createCheckpoint({
    taskId: task,
    checkpoint: {
      metadata: { agent_type: agentType },
      execution_state: { phase: "handoff", completed_items: ["begin"], pending_items: items },
    },
  });
  expect(outcome.outcome).toBe("committed");
  return outcome.checkpointId;
}

test("an agent is killed at work, and the next one finishes the task, through another handoff", async () => {
  const id = await handedOff("built", "implementation", ["a", "b", "c", "d", "e"]);
  await until(() => named("HANDOFF_CONFIRMED", "built").length === 1);
  const killed = beats.findLast(({ task_id }) => task_id === "built");
  process.kill(killed?.pid ?? 0, "SIGKILL");
  const first = await client.handoff(id);
  expect(first).toMatchObject({ state: "confirmed", accepted_by: killed?.agent_id, fence: 1 });
  const confirming = await client.getCheckpoint(first?.first_checkpoint_id ?? "");
  expect(confirming?.metadata).toMatchObject({
    agent_id: killed?.agent_id,
    agent_type: "implementation",
    parent_ids: [id],
    trigger: { reason: "reassignment" },
  });
  await until(() => reportsOf("built").length === 1);
  expect(reportsOf("built")[0]).toMatchObject({
    agent_id: killed?.agent_id,
    fence: 1,
    handoff_id: id,
    class: "crash",
    signal: "SIGKILL",
  });

  const succeeded = () =>
    named("CHECKPOINT_FINALIZED", "built").filter(
      ({ data }) => (data as { status: string }).status === "succeeded",
    );
  await until(() => succeeded().length === 1);
  expect(named("RECOVERY_INITIATED", "built")).toHaveLength(1);
  expect(named("RECOVERY_COMPLETED", "built")).toMatchObject([
    { data: { checkpointId: first?.first_checkpoint_id, attempt: 1 } },
  ]);
  const history = (await client.getCheckpointHistory("built", { order: "oldest" })).checkpoints;
  expect(history.at(-1)?.execution_state).toMatchObject({
    phase: "complete",
    pending_items: [],
    completed_items: ["begin", "a", "b", "c", "d", "e"].map((title) => ({ title })),
  });
  // Fence 2 revoked the killed agent. A third item would fill the context of an agent, so each did two.
  expect(await client.getTask("built")).toMatchObject({ state: "completed", fence: 5 });
  await until(() => reportsOf("built").length === 4);
  expect(reportsOf("built").map((report) => [report.fence, report.class, report.exit_code])).toEqual([
    [1, "crash", null],
    [3, "completed", 0],
    [4, "completed", 0],
    [5, "completed", 0],
  ]);
  expect(new Set(history.map(({ metadata }) => metadata.agent_id)).size).toBe(5);
  expect((await client.verifyAudit("built")).ok).toBe(true);
});

test.each([
  ["limited", "rate_limit", 75, { resets_at: "2030-01-01T00:00:00Z", details: "Error: too many requests" }],
  ["full", "context_exhausted", 76, { details: "Error: too long" }],
  ["broken", "crash", 70, { details: "Error: broken" }],
])(
  "work that fails, %s: its class is reported once, and its exit code matches",
  async (task, failureClass, code, more) => {
    await handedOff(`${task}-1`, "documentation", ["a"]);
    await until(() => reportsOf(`${task}-1`).length === 1);
    expect(reportsOf(`${task}-1`)[0]).toMatchObject({ class: failureClass, exit_code: code, ...more });
    const last = await client.getLatestCheckpoint(`${task}-1`);
    expect(last?.metadata.trigger).toMatchObject({ reason: "error" });
  },
);

test("an agent gets the prompt of the offer, and one that its command restarts resumes its own work", async () => {
  const id = await handedOff("again-1", "qa", ["a"]);
  await until(() => reportsOf("again-1").length === 1);
  expect(reportsOf("again-1")[0]).toMatchObject({ class: "completed", exit_code: 0 });
  const [handedOver, first, failed, last] = (
    await client.getCheckpointHistory("again-1", { order: "oldest" })
  ).checkpoints;
  expect(first?.metadata).toMatchObject({ agent_type: "qa", parent_ids: [id] });
  expect(failed?.metadata.trigger.reason).toBe("error");
  const handoff = (await client.handoff(id)) ?? undefined;
  // The first checkpoint of the next agent finalized it; the prompt was made from the version before.
  expect(handedOver?.metadata).toMatchObject({ version: 2, final_status: "handed_off" });
  const offered = (await client.getCheckpoint(id, { version: 1 })) as Checkpoint;
  const { text } = continuationPrompt({ checkpoint: offered, handoff });
  expect(failed?.context_summary.assumptions).toEqual([text]);
  expect(last?.metadata).toMatchObject({
    parent_ids: [failed?.metadata.checkpoint_id],
    trigger: { reason: "task_complete" },
  });
  expect(await client.getTask("again-1")).toMatchObject({ state: "completed", fence: 1 });
});

test("an agent that sees another owner of its task ends as completed", async () => {
  await handedOff("waiting-1", "documentation", ["a"]);
  await until(() => named("HANDOFF_CONFIRMED", "waiting-1").length === 1);
  await client.takeTask("waiting-1");
  await until(() => reportsOf("waiting-1").length === 1);
  expect(reportsOf("waiting-1")[0]).toMatchObject({ class: "completed", exit_code: 7 });
});

test("seed 000 FR-004.8: a program with an option for it gets the continuation prompt in its system prompt", async () => {
  const state = { phase: "planning" as const, goal: "Draw the plan", pending_items: ["outline"] };
  const checkpoint = { metadata: { agent_type: "architecture" }, execution_state: state };
  await client.createCheckpoint({ taskId: "planned", checkpoint });
  await client.initiateHandoff(null, { taskId: "planned" });
  const note = () => {
    try {
      return JSON.parse(readFileSync(join(programs, "note.json"), "utf8")) as Record<string, unknown>;
    } catch {
      return null;
    }
  };
  await expect.poll(note, SOON).not.toBeNull();
  expect(note()).toEqual({
    args: ["--print", "--append-system-prompt-file", expect.stringMatching(/prompt\.md$/)],
    system: expect.stringMatching(/^# Continue task planned\n.*> Draw the plan.*How to keep this work safe/s),
    first: "Continue the task of your system prompt. Begin with its next action.\n",
  });
});
