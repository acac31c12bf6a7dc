/** The agent loop with a real writer, reader, store and nats-server: how a run begins, what it writes, and each way in which it ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Message } from "../../../shared/bus/bus.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import type { Heartbeat } from "../../../shared/protocol/heartbeat.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type AgentOptions, RunEnded } from "../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { offer, offeredTask } from "../../harness/records/handoffs.ts";
import { send } from "../../harness/records/records.ts";

let writer: InProcessFleet;

beforeAll(async () => {
  writer = await openInProcessFleet();
});
afterAll(() => writer?.close());

const history = async (task: string) =>
  (
    await writer.records.repository.history("default", {
      task_id: task,
      order: "oldest",
      limit: 100,
      versions: "latest",
    } as never)
  ).checkpoints;
const reasons = async (task: string) =>
  (await history(task)).map(
    ({ metadata, execution_state }) => `${metadata.trigger.reason} ${execution_state.phase}`,
  );
const head = (task: string) => writer.records.repository.task("default", task);
const record = (task: string) => writer.records.repository.handoff("default", { task_id: task });

async function beatsOf(agentId: string): Promise<{ beats: Heartbeat[]; unwatch: () => Promise<void> }> {
  const beats: Heartbeat[] = [];
  const unwatch = await writer.bus.subscribe(SUBJECTS.heartbeat("default", agentId), ({ body }: Message) => {
    beats.push(JSON.parse(Buffer.from(body).toString()) as Heartbeat);
  });
  return { beats, unwatch };
}

test("a new task by name, to its completion, with a checkpoint after every second item", async () => {
  const { beats, unwatch } = await beatsOf("named");
  const seen: string[] = [];
  const result = await writer.runAgent("named", {
    type: "implementation",
    task: "by-name",
    begin: { goal: "Count", pending_items: ["one", "two", "three", "four", "five"] },
    checkpoints: { items: 2 },
    async work(one) {
      expect(one.resumedFrom).toBeNull();
      for (const item of one.items()) {
        seen.push(item.title);
        one.usage({ tokensConsumed: 10 * seen.length, toolsInvoked: seen.length });
        if (item.title === "two") one.state.execution_state.pending_items.push({ title: "six" });
        await one.done(item, { notes: "counted" });
      }
    },
  });
  expect(seen).toEqual(["one", "two", "three", "four", "five", "six"]);
  expect(await reasons("by-name")).toEqual([
    "manual implementing",
    "progress implementing",
    "progress implementing",
    "progress implementing",
    "task_complete complete",
  ]);
  const last = (await history("by-name")).at(-1);
  expect(last).toMatchObject({
    metadata: { checkpoint_id: result.checkpointId, status: "finalized", agent_type: "implementation" },
    execution_state: { goal: "Count", pending_items: [] },
    metrics: { tokens_consumed: 60, tools_invoked: 6 },
  });
  expect(last?.execution_state.completed_items).toHaveLength(6);
  expect(result).toMatchObject({ outcome: "completed", taskId: "by-name", handoffId: null });
  expect(await head("by-name")).toMatchObject({ state: "completed", owner: "named", fence: 1 });
  await expect.poll(() => beats.at(-1)?.state).toBe("stopping");
  expect(beats.map(({ state }) => state)).toEqual(expect.arrayContaining(["starting", "working", "idle"]));
  expect(beats.find(({ state }) => state === "working")).toMatchObject({ task_id: "by-name", fence: 1 });
  await unwatch();
});

test("an offer is acknowledged, resumed, confirmed by the first checkpoint, and completed", async () => {
  const id = await offeredTask(writer.records, "by-offer", "implementation", { prompt: "Do the rest." });
  const before = (await head("by-offer")).latest_id;
  const result = await writer.runAgent("taker", {
    type: "implementation",
    async work(one) {
      expect(one.prompt).toBe("Do the rest.");
      expect(one.resumedFrom?.metadata.checkpoint_id).toBe(before);
      expect(one.state.execution_state.phase).toBe("implementing");
      expect(await record("by-offer")).toMatchObject({
        handoff_id: id,
        state: "confirmed",
        accepted_by: "taker",
      });
      for (const item of one.items()) await one.done(item);
    },
  });
  expect(result.outcome).toBe("completed");
  const [, handedOver, first] = await history("by-offer");
  expect(first?.metadata).toMatchObject({
    parent_ids: [handedOver?.metadata.checkpoint_id],
    trigger: { reason: "reassignment" },
    iteration: 2,
  });
  const items = (await history("by-offer")).at(-1)?.execution_state.completed_items.map(({ title }) => title);
  expect(items).toEqual(["first", "second", "third"]);
  await writer.audit("by-offer");
});

test("an offer that one agent declines goes to another agent", async () => {
  const asked: string[] = [];
  const stopping = new AbortController();
  const choosy = writer.runAgent("choosy", {
    type: "documentation",
    signal: stopping.signal,
    onOffer: ({ task_id }) => {
      asked.push(task_id);
      return false;
    },
    work: () => Promise.reject(new Error("never")),
  });
  await offeredTask(writer.records, "unwanted", "documentation");
  await expect.poll(() => asked).toContain("unwanted");
  const willing = await writer.runAgent("willing", {
    type: "documentation",
    async work(one) {
      for (const item of one.items()) await one.done(item);
    },
  });
  expect(willing).toMatchObject({ outcome: "completed", taskId: "unwanted" });
  stopping.abort();
  expect(await choosy).toMatchObject({ outcome: "stopped", taskId: null });
});

test("seed 003 US-004: a full context is detected, is marked context_overflow and hands the task off on the writer's advice, and a fresh agent continues", async () => {
  let thrown: unknown;
  const result = await writer.runAgent("full", {
    type: "implementation",
    task: "filling",
    begin: { pending_items: ["one", "two", "three"] },
    async work(one) {
      for (const item of one.items()) {
        // The total of the iteration says nothing about the context.
        const contextTokens = item.title === "two" ? 150_000 : 1_000;
        one.usage({ tokensConsumed: 900_000, contextTokens, contextLimit: 200_000 });
        await one.done(item).catch((error: unknown) => {
          thrown = error;
          throw error;
        });
      }
    },
  });
  expect(thrown).toBeInstanceOf(RunEnded);
  expect(result).toMatchObject({ outcome: "handed_off", taskId: "filling" });
  expect(await reasons("filling")).toEqual([
    "manual implementing",
    "context_overflow implementing",
    "context_overflow handoff",
  ]);
  const handoff = await record("filling");
  expect(handoff).toMatchObject({
    handoff_id: result.handoffId,
    state: "requested",
    from_agent: "full",
    trigger: { reason: "context_utilization", value: 0.75, threshold: 0.7 },
    reason: "the context is filling up: 75 %, over 70 %",
  });
  await offer(writer.records.repository, handoff.handoff_id, { toAgentType: "implementation" });
  const next = await writer.runAgent("fresh", {
    type: "implementation",
    async work(one) {
      expect(one.state.metrics.tokens_consumed).toBe(0);
      expect([...one.items()].map(({ title }) => title)).toEqual(["three"]);
      await one.done("three");
    },
  });
  expect(next).toMatchObject({ outcome: "completed", taskId: "filling" });
  expect(await head("filling")).toMatchObject({ owner: "fresh", fence: 2, state: "completed" });
});

test("seed 003 US-004: a context that one more step would fill hands the task off before that step, so before the overflow", async () => {
  const result = await writer.runAgent("careful", {
    type: "implementation",
    task: "step-ahead",
    begin: { pending_items: ["one", "two", "three"] },
    async work(one) {
      let contextTokens = 0;
      for (const item of one.items()) {
        contextTokens += 60_000;
        one.usage({ contextTokens, contextLimit: 200_000 });
        await one.done(item);
      }
    },
  });
  expect(result.outcome).toBe("handed_off");
  const handoff = await record("step-ahead");
  expect(handoff).toMatchObject({
    trigger: { reason: "context_utilization", value: 0.6, expected: 0.9, threshold: 0.7 },
    reason: "the context is filling up: 60 %, 90 % after the next step, over 70 %",
  });
  const { checkpoint_id } = handoff as Handoff;
  expect(await writer.records.repository.get("default", checkpoint_id)).toMatchObject({
    execution_state: { completed_items: [{ title: "one" }, { title: "two" }] },
    metrics: { context_tokens: 120_000, context_step_tokens: 60_000, context_limit: 200_000 },
  });
});

test("own thresholds, errors, rate limits, a change of phase and a request hand the task off", async () => {
  const ends: [string, Partial<AgentOptions>, string, object | null][] = [
    ["own", { triggers: { context_utilization: 0.2 } }, "context_overflow", null],
    ["errors", {}, "error", { reason: "error_count", value: 6, threshold: 5 }],
    ["limited", {}, "error", { reason: "rate_limit" }],
    ["phase", {}, "phase_transition", { reason: "phase_complete" }],
    ["request", {}, "handoff", { reason: "explicit_request" }],
  ];
  for (const [task, options, reason, trigger] of ends) {
    const result = await writer.runAgent("ender", {
      type: "implementation",
      task,
      ...options,
      async work(one) {
        one.usage({ contextUtilization: task === "own" ? 0.3 : 0.1 });
        if (task === "errors") for (;;) await one.failed(new TypeError("no such tool"));
        if (task === "limited") await one.rateLimited({ resetsAt: "2026-01-24T12:00:00Z" });
        if (task === "phase") await one.phase("testing");
        if (task === "request") await one.handOff({ toAgentType: "qa", reason: "needs other eyes" });
        await one.checkIn();
        throw new Error("not handed off");
      },
    });
    expect(result.outcome).toBe("handed_off");
    expect((await reasons(task)).at(-1)).toBe(`${reason} handoff`);
    expect(await record(task)).toMatchObject({ state: "requested", trigger });
  }
  // The record of the handoff has the policy's trigger. A threshold of the agent appears in the reason.
  expect(await record("own")).toMatchObject({ reason: "the context is filling up: 30 %, over 20 %" });
  expect(await record("phase")).toMatchObject({ next_phase: "testing" });
  expect(await record("request")).toMatchObject({ to_agent_type: "qa", reason: "needs other eyes" });
});

test("seed 003 trigger on failure: an error of the work is recorded, reported and rethrown", async () => {
  const failure = new RangeError("the model said nothing");
  const working = writer.runAgent("thrower", {
    type: "qa",
    task: "throwing",
    classify: () => "tool_error",
    work: () => Promise.reject(failure),
  });
  await expect(working).rejects.toBe(failure);
  expect((await history("throwing")).at(-1)).toMatchObject({
    metadata: { trigger: { reason: "error", details: "RangeError: the model said nothing" } },
    metrics: { error_count: 1 },
  });
  expect(await head("throwing")).toMatchObject({ owner: "thrower", state: "active" });
  const exits = writer.bus.stream(STREAMS.exits);
  const { lastSeq } = await exits.state();
  const report = JSON.parse(Buffer.from((await exits.get(lastSeq))!.body).toString()) as ExitReport;
  expect(report).toMatchObject({
    agent_id: "thrower",
    agent_type: "qa",
    task_id: "throwing",
    fence: 1,
    class: "tool_error",
    details: "RangeError: the model said nothing",
  });
});

test("the run of a superseded agent ends during its work, and writes nothing more", async () => {
  const working = Promise.withResolvers<void>();
  const result = writer.runAgent("slow", {
    type: "qa",
    task: "contested",
    async work(one) {
      working.resolve();
      await new Promise((_, reject) => one.signal.addEventListener("abort", () => reject(one.signal.reason)));
    },
  });
  await working.promise;
  await send(writer.records.repository, "take", {}, { task: "contested", agent: "other" });
  expect(await result).toMatchObject({ outcome: "fenced", taskId: "contested" });
  expect(await head("contested")).toMatchObject({ owner: "other", fence: 2, seq: 1 });
});

test("a superseded agent is refused at its next checkpoint, even if the work ignores the error", async () => {
  const result = await writer.runAgent("deaf", {
    type: "qa",
    task: "deaf",
    fence: 0,
    begin: { pending_items: ["a", "b"] },
    checkpoints: { items: 1 },
    async work(one) {
      await one.done("a");
      await send(writer.records.repository, "take", {}, { task: "deaf", agent: "other" });
      for (const item of one.items()) await one.done(item).catch(() => {});
      expect(one.signal.aborted).toBe(true);
    },
  });
  expect(result.outcome).toBe("fenced");
  expect(await reasons("deaf")).toEqual(["manual implementing", "progress implementing"]);
});

test.each(["release", "hand_off"] as const)("the task of a stopped agent: %s", async (onStop) => {
  const stopping = new AbortController();
  const task = `stopped-${onStop}`;
  const result = await writer.runAgent("stopped", {
    type: "qa",
    task,
    onStop,
    signal: stopping.signal,
    begin: { pending_items: ["a", "b"] },
    async work(one) {
      await one.done("a");
      stopping.abort();
      one.signal.throwIfAborted();
    },
  });
  expect(result.outcome).toBe(onStop === "release" ? "stopped" : "handed_off");
  const last = (await history(task)).at(-1);
  expect(last?.execution_state).toMatchObject({
    completed_items: [{ title: "a" }],
    pending_items: [{ title: "b" }],
  });
  if (onStop === "release")
    expect(await head(task)).toMatchObject({ owner: null, fence: 1, state: "active" });
  else expect(await record(task)).toMatchObject({ handoff_id: result.handoffId, state: "requested" });
});

test("a workspace is recorded in each checkpoint and compared when the work continues", async () => {
  const workspace = mkdtempSync(join(tmpdir(), "fleet-workspace-"));
  const begin = { pending_items: ["a", "b"] };
  const place = { type: "qa", task: "placed", workspace };
  await writer.runAgent("placed", { ...place, begin, work: (one) => one.done("a") });
  expect((await history("placed")).at(-1)?.recovery.workspace).toBeDefined();
  const result = await writer.runAgent("placed", {
    ...place,
    async work(one) {
      expect(one.drift?.grade).toMatch(/ok|drift|conflict/);
      expect(one.prompt).toContain("b");
      await one.done("b");
    },
  });
  expect(result.outcome).toBe("completed");
  rmSync(workspace, { recursive: true });
});

test("work that returns with items pending releases the task", async () => {
  const begin = { pending_items: ["a", "b"] };
  const result = await writer.runAgent("brief", {
    type: "qa",
    task: "half",
    begin,
    work: (one) => one.done("a"),
  });
  expect(result.outcome).toBe("stopped");
  expect(await reasons("half")).toEqual(["manual implementing", "turn_end implementing"]);
  expect(await head("half")).toMatchObject({ owner: null, state: "active" });
});

test("a periodic checkpoint is written during a long step, if anything has changed", async () => {
  const begin = { pending_items: ["long"] };
  const { beats, unwatch } = await beatsOf("busy");
  await writer.runAgent("busy", {
    type: "qa",
    task: "busy",
    begin,
    checkpoints: { everyMs: 200 },
    async work(one) {
      one.usage({ tokensConsumed: 5 });
      const initialId = one.checkpointId;
      await expect.poll(() => one.checkpointId).not.toBe(initialId);
      await one.beforeLong("a migration", { withinMs: 60_000 });
      const deadline = () => Date.parse(beats.at(-1)?.step_deadline ?? "");
      await expect.poll(deadline).toBeGreaterThan(Date.now() + 50_000);
      await one.done("long");
      await expect.poll(() => beats.at(-1)?.step_deadline).toBeUndefined();
    },
  });
  await unwatch();
  expect((await reasons("busy")).slice(0, 3)).toEqual([
    "manual implementing",
    "periodic implementing",
    "before_long_operation implementing",
  ]);
});
