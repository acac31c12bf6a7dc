// The saver with real graphs on a real fleet: a killed process, a second writer, time travel, deletion, and the known faults of other savers.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { FleetSaver } from "../../../../shared/sdk/langgraph/saver.ts";
import { startFleet, type TestFleet } from "../../../harness/processes/fleet.ts";
import { projectRoot } from "../../../harness/project-root.ts";

vi.setConfig({ testTimeout: 60_000 });

const PROGRAM = join(projectRoot, "test/shared/sdk/langgraph/graph.program.ts");
let fleet: TestFleet;
let folder: string;
let threads = 0;

beforeAll(async () => {
  fleet = await startFleet();
  folder = mkdtempSync(join(tmpdir(), "fleet-langgraph-"));
});
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const newThread = () => {
  threads += 1;
  return `thread-${threads}`;
};
const saver = async (agent: string, options = {}) => new FleetSaver(await fleet.client(agent), options);
const at = (thread_id: string, checkpoint_id?: string) => ({
  configurable: { thread_id, checkpoint_ns: "", checkpoint_id },
});
const step = (value: unknown) => ({
  ...emptyCheckpoint(),
  id: uuid6(0),
  channel_values: { value },
  channel_versions: { value: 1 },
});
const META = { source: "loop", step: 1, parents: {} } as const;

const State = Annotation.Root({
  done: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});
const graphWith = (checkpointer: FleetSaver) =>
  new StateGraph(State)
    .addNode("one", () => ({ done: ["one"] }))
    .addNode("two", () => ({ done: ["two"] }))
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", END)
    .compile({ checkpointer: checkpointer as never });

test("a graph whose process is killed in a step continues in another process from that step", async () => {
  const [log, go] = [join(folder, "log"), join(folder, "go")];
  const start = (agent: string) =>
    spawn(process.execPath, [PROGRAM, "killed", log, go], {
      env: { ...process.env, FLEET_HOME: fleet.home, FLEET_AGENT_ID: agent },
      stdio: ["ignore", "pipe", "inherit"],
    });
  const first = start("graph-1");
  await expect
    .poll(() => readFileSync(log, { encoding: "utf8", flag: "a+" }), { timeout: 30_000 })
    .toContain("two");
  first.kill("SIGKILL");
  await once(first, "exit");
  writeFileSync(go, "");
  const second = start("graph-2");
  let out = "";
  second.stdout.setEncoding("utf8").on("data", (part: string) => {
    out += part;
  });
  expect((await once(second, "close"))[0]).toBe(0);
  expect(JSON.parse(out)).toEqual(["one", "two", "three"]);
  expect(readFileSync(log, "utf8").trim().split("\n")).toEqual(["one", "two", "two", "three"]);
});

test("a second writer is refused, and after it has taken the thread the first one is", async () => {
  const thread = newThread();
  const first = await saver("writer-1");
  await first.put(at(thread), step(1), META, { value: 1 });
  const second = await saver("writer-2");
  await expect(second.put(at(thread), step(2), META, { value: 1 })).rejects.toMatchObject({
    code: "CONFLICT",
  });
  const third = await saver("writer-3", { takeOver: true });
  await third.put(at(thread), step(3), META, { value: 1 });
  await expect(first.put(at(thread), step(4), META, { value: 1 })).rejects.toMatchObject({ code: "FENCED" });
  await expect(first.putWrites(at(thread, uuid6(0)), [["value", 1]], "t")).rejects.toMatchObject({
    code: "FENCED",
  });
  expect((await second.getTuple(at(thread)))?.checkpoint.channel_values).toEqual({ value: 3 });
});

test("a released thread is free for another saver, and one that was taken over stays with its owner", async () => {
  const [free, lost] = [newThread(), newThread()];
  const first = await saver("leaver-1");
  await first.put(at(free), step(1), META, { value: 1 });
  await first.put(at(lost), step(1), META, { value: 1 });
  const taker = await saver("leaver-2", { takeOver: true });
  await taker.put(at(lost), step(2), META, { value: 1 });
  await first.release();
  const second = await saver("leaver-3");
  await second.put(at(free), step(2), META, { value: 1 });
  await expect(second.put(at(lost), step(3), META, { value: 1 })).rejects.toMatchObject({ code: "CONFLICT" });
  await expect(first.put(at(free), step(4), META, { value: 1 })).rejects.toMatchObject({ code: "CONFLICT" });
  expect((await first.getTuple(at(free)))?.checkpoint.channel_values).toEqual({ value: 2 });
});

test("time travel: a graph continues from an earlier checkpoint, and both branches stay", async () => {
  const thread = newThread();
  const graph = graphWith(await saver("traveller"));
  const config = { configurable: { thread_id: thread } };
  expect((await graph.invoke({}, config)).done).toEqual(["one", "two"]);
  const states = [];
  for await (const state of graph.getStateHistory(config)) states.push(state);
  const before = states.find(({ next }) => next.includes("two"));
  const branch = await graph.updateState(before!.config, { done: ["other"] });
  expect((await graph.invoke(null, branch)).done).toEqual(["one", "other", "two"]);
  const latest = states[0]!.config;
  expect((await graph.getState(latest)).values.done).toEqual(["one", "two"]);
  expect((await graph.getState(config)).values.done).toEqual(["one", "other", "two"]);
});

test("everything is in the audited history of a task, whose chain verifies", async () => {
  const thread = newThread();
  await graphWith(await saver("audited")).invoke({}, { configurable: { thread_id: thread } });
  const client = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
  const report = await client.verifyAudit(`langgraph-${thread}`, { deadlineMs: 20_000 });
  expect(report).toMatchObject({ ok: true });
});

test("a deleted thread is empty, begins again, and its history stays in the fleet", async () => {
  const thread = newThread();
  const one = await saver("deleter");
  await one.put(at(thread), step(1), META, { value: 1 });
  await one.deleteThread(thread);
  expect(await one.getTuple(at(thread))).toBeUndefined();
  await one.put(at(thread), step(2), META, { value: 1 });
  expect((await one.getTuple(at(thread)))?.checkpoint.channel_values).toEqual({ value: 2 });
  const client = await fleet.client("reader-1");
  const { checkpoints } = await client.getCheckpointHistory(`langgraph-${thread}`, { deadlineMs: 20_000 });
  expect(checkpoints).toHaveLength(3);
});

test("values of unchanged channels, undefined values and empty writes survive", async () => {
  const thread = newThread();
  const one = await saver("values");
  const first = {
    ...step(1),
    channel_values: { kept: "k", value: 1 },
    channel_versions: { kept: 1, value: 1 },
  };
  const config = await one.put(at(thread), first, META, { kept: 1, value: 1 });
  const second = {
    ...step(2),
    channel_values: { kept: "k", value: 2 },
    channel_versions: { kept: 1, value: 2 },
  };
  const next = await one.put(config, second, META, { value: 2 });
  expect(Object.keys(next.configurable ?? {}).sort()).toEqual([
    "checkpoint_id",
    "checkpoint_ns",
    "thread_id",
  ]);
  expect((await one.getTuple(next))?.checkpoint.channel_values).toEqual({ kept: "k", value: 2 });
  await one.putWrites(next, [], "task");
  await one.putWrites(next, [["value", undefined]], "task");
  expect((await one.getTuple(next))?.pendingWrites).toEqual([["task", "value", undefined]]);
});

test.each([[{}], [["a"]], [7], [""], ["x".repeat(513)]])(
  "a thread id that is no text is refused: %j",
  async (thread_id) => {
    const one = await saver("ids");
    const config = { configurable: { thread_id } } as never;
    await expect(one.put(config, step(1), META, {})).rejects.toMatchObject({ code: "INVALID" });
    await expect(one.getTuple(config)).rejects.toMatchObject({ code: "INVALID" });
  },
);

test("a thread id with any characters is one thread of its own", async () => {
  const one = await saver("names");
  const names = ["a/b", "a b", "__proto__", "*", "sha-1"];
  for (const name of names) await one.put(at(name), step(name), META, { value: 1 });
  for (const name of names)
    expect((await one.getTuple(at(name)))?.checkpoint.channel_values).toEqual({ value: name });
});

test("entries that another agent wrote in another form, or for another thread, are passed over", async () => {
  const thread = newThread();
  const own = await saver("owner-1");
  await own.put(at(thread), step("own"), META, { value: 1 });
  const client = await fleet.client("forger");
  const task = await client.takeTask(`langgraph-${thread}`);
  const forged = { kind: "checkpoint", thread_id: thread, ns: "", id: "zzz", parent_id: null };
  const value = ["json", Buffer.from("{}").toString("base64")];
  for (const langgraph of [
    forged,
    { ...forged, checkpoint: value, metadata: value, values: { value: "7" } },
    { ...forged, checkpoint: value, metadata: value, values: {}, thread_id: "another" },
    { kind: "writes", thread_id: thread, ns: "", checkpoint_id: "x", writes: [null] },
  ])
    await task.checkpoint({
      metadata: { agent_type: "implementation" },
      execution_state: { phase: "implementing", langgraph },
    });
  const next = await saver("owner-2", { takeOver: true });
  const found = await next.getTuple(at(thread));
  expect(found?.checkpoint.channel_values).toEqual({ value: "own" });
  expect(found?.config.configurable?.thread_id).toBe(thread);
  await next.put(found!.config, step("next"), META, { value: 2 });
});

test("names with spaces do not collide", async () => {
  const thread = newThread();
  const own = await saver("spaces");
  const named = (ns: string) => ({ configurable: { thread_id: thread, checkpoint_ns: ns } });
  await own.put(named("a"), { ...step(1), id: "b c" }, META, { value: 1 });
  await own.put(named("a b"), { ...step(2), id: "c" }, META, { value: 1 });
  expect((await own.getTuple(named("a")))?.checkpoint.channel_values).toEqual({ value: 1 });
  expect((await own.getTuple(named("a b")))?.checkpoint.channel_values).toEqual({ value: 2 });
});

test("a client that removes secrets removes them from the values of a graph, also encoded ones", async () => {
  const secret = "sesame-4711-öffne";
  const client = await fleet.client("graph-clean", "default", {
    redaction: "on",
    env: { DEPLOY_TOKEN: secret, FLEET_HOME: fleet.home },
  });
  const clean = new FleetSaver(client);
  const thread = newThread();
  const value = {
    text: `Bearer ${secret}!`,
    again: Buffer.from(secret).toString("base64"),
    kept: [1.5, "plain"],
  };
  const config = await clean.put(at(thread), step(value), META);
  await clean.putWrites({ ...config }, [["value", { password: secret }]], "task-1");
  const tuple = await clean.getTuple(config);
  expect(tuple?.checkpoint.channel_values.value).toMatchObject({
    text: expect.stringContaining("[redacted:"),
    again: expect.stringContaining("[redacted:"),
    kept: [1.5, "plain"],
  });
  expect(JSON.stringify(tuple)).not.toContain("sesame");
  expect(tuple?.pendingWrites?.[0]?.[2]).toEqual({ password: expect.stringContaining("[redacted:") });
  // By default the graph gets back what it has put.
  const other = newThread();
  const kept = await (await saver("graph-kept")).put(at(other), step(value), META);
  expect((await clean.getTuple(kept))?.checkpoint.channel_values.value).toEqual(value);
});
