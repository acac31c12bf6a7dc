/** The runner with a real bus and a real writer: it starts real processes from offers, and reports their exits. */
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { connect } from "../../../shared/sdk/sdk.ts";
import { EVIL, FORGERIES, forged, intercepted, publishOffer } from "../../harness/forged-offers.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { offeredTask } from "../../harness/records/handoffs.ts";
import { send } from "../../harness/records/records.ts";
import { processEnded } from "./launcher-bench.ts";
import { agentRecord, openRunnerBench, type RunnerBench, recordedLog } from "./runner-bench.ts";

const PROMPT = "Continue: $(touch owned) `x` 'one' \"two\"\n\n\ttab \\ é 🚀 {task_id}\n";

let bench: RunnerBench;

beforeAll(async () => {
  bench = await openRunnerBench();
});
afterEach(() => bench.stopRunners());
afterAll(() => bench?.close());

const handoff = (id: string) => bench.writer.records.repository.handoff("default", { handoff_id: id });
const task = (id: string) => bench.writer.records.repository.task("default", id);
const offer = (id: string, type: string, more: object = {}) =>
  offeredTask(bench.writer.records, id, type, more);

vi.setConfig({ testTimeout: 90_000 });

describe("an offer", () => {
  test("becomes an agent that owns the task and has its prompt and its variables", async () => {
    const runner = bench.runner({ qa: {} });
    const beats: { agent_id: string; pid: number; task_id: string }[] = [];
    const unsubscribe = await bench.writer.bus.subscribe(SUBJECTS.everyHeartbeat, ({ body }) => {
      beats.push(JSON.parse(Buffer.from(body).toString()));
    });
    const stop = await runner.start();
    const id = await offer("work-1", "qa", { prompt: PROMPT });
    const agentReport = await runner.selfReport("work-1");
    expect(agentReport.prompt).toBe(PROMPT);
    expect(agentReport.env).toMatchObject({
      FLEET_TASK: "work-1",
      FLEET_FENCE: "1",
      FLEET_HANDOFF: id,
      FLEET_AGENT_TYPE: "qa",
      FLEET_AGENT_ID: expect.stringMatching(/^qa-[0-9a-f]{12}$/),
    });
    const agent = agentReport.env.FLEET_AGENT_ID;
    const report = await bench.reported("work-1");
    expect(report).toMatchObject({
      agent_id: agent,
      agent_type: "qa",
      fence: 1,
      handoff_id: id,
      class: "completed",
      exit_code: 0,
      signal: null,
    });
    expect(await handoff(id)).toMatchObject({
      state: "confirmed",
      accepted_by: agent,
      first_checkpoint_id: agentReport.checkpointId,
    });
    expect(beats.filter(({ agent_id }) => agent_id === agent)).not.toEqual([]);
    expect(beats.find(({ agent_id }) => agent_id === agent)).toMatchObject({
      task_id: "work-1",
      pid: agentReport.pid,
    });
    await expect.poll(() => bench.offers()).toBe(0);
    await unsubscribe();
    await stop();
  });

  test("whose program was removed or fails at once ends with a report of that", async () => {
    const program = join(tmpdir(), `agent-${uuidv7()}`);
    writeFileSync(program, "#!/bin/sh\n", { mode: 0o700 });
    const runner = bench.runner({
      qa: { command: [program, "--task", "{task_id}"] },
      documentation: {},
    });
    const { log, lines } = recordedLog();
    const stop = await runner.start(log);
    rmSync(program);
    const missing = await offer("work-missing", "qa");
    expect(await bench.reported("work-missing")).toMatchObject({
      class: "not_started",
      exit_code: null,
      fence: 1,
      details: `could not be started: the program ${program} was not found`,
    });
    // The agent that never started owns the task until the handoff lapses.
    expect(await handoff(missing)).toMatchObject({ state: "accepted" });
    await offer("crash-1", "documentation");
    expect(await bench.reported("crash-1")).toMatchObject({ class: "crash", exit_code: 1 });
    const { values } = await runner.metrics.runnerExitsTotal.get();
    expect(values.map(({ labels, value }) => [labels.agent_type, labels.class, value]).sort()).toEqual([
      ["documentation", "crash", 1],
      ["qa", "not_started", 1],
    ]);
    const linesOf = (id: string) =>
      lines.filter(({ task_id }) => task_id === id).map(({ level, msg }) => [level, msg]);
    expect(linesOf("work-missing")).toEqual([["error", "agent could not be started"]]);
    expect(linesOf("crash-1")).toEqual([
      ["info", "agent started"],
      ["warn", "agent failed"],
    ]);
    await stop();
  });

  test("whose agent writes an exit note is reported with it", async () => {
    const stop = await bench.runner({ qa: {} }).start();
    await offer("limit-1", "qa");
    expect(await bench.reported("limit-1")).toMatchObject({
      class: "rate_limit",
      exit_code: 1,
      details: "the vendor fileOf 429",
      resets_at: "2030-01-01T00:00:00Z",
    });
    await stop();
  });

  test("of a task that another agent has taken is void", async () => {
    await offer("work-late", "qa");
    await send(bench.writer.records.repository, "take", {}, { agent: "faster", task: "work-late" });
    const runner = bench.runner({ qa: {} });
    const stop = await runner.start();
    const voided = async () => (await runner.metrics.runnerOffersVoidTotal.get()).values[0]?.value;
    await expect.poll(voided, { timeout: 30_000 }).toBe(1);
    expect(runner.records()).toEqual([]);
    await expect.poll(() => bench.offers(), { timeout: 10_000 }).toBe(0);
    await stop();
  });

  test("that has expired is void, which is no error", async () => {
    await offer("work-expired", "qa", { deadlineMs: 1 });
    const runner = bench.runner({ qa: {} });
    const { log, lines } = recordedLog();
    const stop = await runner.start(log);
    const voided = async () => (await runner.metrics.runnerOffersVoidTotal.get()).values[0]?.value;
    await expect.poll(voided, { timeout: 30_000 }).toBe(1);
    await expect.poll(() => bench.offers(), { timeout: 30_000 }).toBe(0);
    await stop();
    expect(lines).toContainEqual(
      expect.objectContaining({ level: "info", msg: "offer is void", why: "the offer has expired" }),
    );
    expect(lines.filter(({ level }) => level !== "info")).toEqual([]);
  });

  test("that the fleet did not make starts no agent, and the real one starts it with its own prompt", async () => {
    for (const [at, [what, forge]] of FORGERIES.entries()) {
      const id = await offer(`work-forged-${at}`, "qa", { prompt: PROMPT });
      const one = await intercepted(bench.writer, "qa");
      for (const recomputed of [false, true]) {
        await publishOffer(bench.writer, "qa", forged(one, forge(one.data), recomputed));
      }
      const runner = bench.runner({ qa: { max_agents: 4 } });
      const stop = await runner.start();
      const total = async (name: "runnerOffersRefusedTotal" | "runnerOffersVoidTotal") =>
        (await runner.metrics[name].get()).values[0]?.value ?? 0;
      const counts = async () => [
        await total("runnerOffersRefusedTotal"),
        await total("runnerOffersVoidTotal"),
      ];
      // An offer for another type than that of its subject is refused with any digest.
      const expected = what === "agent type" ? [2, 0] : [1, 1];
      await expect.poll(counts, { timeout: 30_000 }).toEqual(expected);
      // The metrics are counted before the messages are acknowledged and the records dropped.
      await expect
        .poll(async () => [await bench.offers(), runner.records()], { timeout: 30_000 })
        .toEqual([0, []]);
      expect((await handoff(id)).state).toBe("offered");
      await publishOffer(bench.writer, "qa", one);
      expect((await runner.selfReport(`work-forged-${at}`)).prompt).toBe(PROMPT);
      await stop();
    }
  });

  test("that is forged at the same time does not remove the real one", async () => {
    const id = await offer("work-raced", "qa", { prompt: PROMPT });
    const one = await intercepted(bench.writer, "qa");
    for (let n = 0; n < 4; n += 1) {
      await publishOffer(bench.writer, "qa", forged(one, { prompt: `${EVIL} ${n}` }, true));
      if (n === 1) await publishOffer(bench.writer, "qa", one);
    }
    const runner = bench.runner({ qa: { max_agents: 6 } });
    const stop = await runner.start();
    expect((await runner.selfReport("work-raced")).prompt).toBe(PROMPT);
    await expect.poll(() => bench.offers(), { timeout: 30_000 }).toBe(0);
    expect(runner.starts("work-raced")).toBe(1);
    expect((await handoff(id)).state).toMatch(/accepted|confirmed/);
    await stop();
  });

  test("is accepted by the runner that has capacity", async () => {
    const one = bench.runner({ qa: { max_agents: 1 } });
    const other = bench.runner({ qa: {}, documentation: {} }, { max_agents: 1 });
    const stopOne = await one.start();
    await offer("stay-1", "qa");
    await one.selfReport("stay-1");
    const stopOther = await other.start();
    await offer("stay-2", "qa");
    const { pid } = await other.selfReport("stay-2");
    await offer("work-3", "documentation");
    expect(one.records().map(({ task_id }) => task_id)).toEqual(["stay-1"]);
    process.kill(pid, "SIGKILL");
    const [before, after] = [await bench.reported("stay-2"), await bench.reported("work-3")];
    expect(Date.parse(after.started_at)).toBeGreaterThanOrEqual(Date.parse(before.ended_at));
    await Promise.all([stopOne(), stopOther()]);
  });
});

describe("a runner that is stopped", () => {
  test("ends its agents, with SIGKILL if necessary, and reports them", async () => {
    const runner = bench.runner({ qa: {}, documentation: {} });
    const stop = await runner.start();
    await Promise.all([offer("stay-stop", "qa"), offer("refuse-stop", "documentation")]);
    const [obeys, refuses] = await Promise.all([
      runner.selfReport("stay-stop"),
      runner.selfReport("refuse-stop"),
    ]);
    await stop();
    await Promise.all([processEnded(obeys.pid), processEnded(refuses.pid)]);
    const details = "the runner was stopped and ended it";
    expect(await bench.reported("stay-stop")).toMatchObject({ class: "crash", signal: "SIGTERM", details });
    expect(await bench.reported("refuse-stop")).toMatchObject({ class: "crash", signal: "SIGKILL", details });
    expect(runner.records().map(({ state }) => state)).toEqual(["reported", "reported"]);
  });

  test("leaves its agents to the next runner if the settings say leave", async () => {
    const runner = bench.runner({ qa: {} }, { on_stop: "leave" });
    const stop = await runner.start();
    await offer("stay-left", "qa");
    const { pid } = await runner.selfReport("stay-left");
    await stop();
    expect(processMark(pid)).toBeDefined();
    const stopNext = await runner.start();
    await expect.poll(async () => (await runner.metrics.runnerAgents.get()).values[0]?.value).toBe(1);
    process.kill(pid, "SIGKILL");
    expect(await bench.reported("stay-left")).toMatchObject({ class: "crash", signal: "SIGKILL" });
    expect(runner.starts("stay-left")).toBe(1);
    await stopNext();
  });
});

test("an agent that exceeds the run time of its type is ended", async () => {
  const stop = await bench.runner({ qa: { run_ms: 3_000 } }).start();
  await offer("stay-long", "qa");
  expect(await bench.reported("stay-long")).toMatchObject({
    class: "timeout",
    details: "it exceeded the run_ms of its agent type",
  });
  await stop();
});

describe("a runner that was killed", () => {
  test("finds its agents: none is started twice, and the exit of each is reported once", async () => {
    const runner = bench.runner({ qa: { max_agents: 3 } });
    const first = await runner.spawn();
    await Promise.all([offer("stay-a", "qa"), offer("stay-b", "qa")]);
    const [alive, dead] = await Promise.all([runner.selfReport("stay-a"), runner.selfReport("stay-b")]);
    await first.kill9();
    expect(processMark(alive.pid)).toBeDefined();
    process.kill(dead.pid, "SIGSEGV");
    await processEnded(dead.pid);

    const second = await runner.spawn();
    expect(await bench.reported("stay-b")).toMatchObject({ class: "crash", signal: "SIGSEGV" });
    await second.kill9();
    const stop = await runner.start();
    process.kill(alive.pid, "SIGTERM");
    expect(await bench.reported("stay-a")).toMatchObject({ class: "crash", signal: "SIGTERM" });
    await stop();
    expect([runner.starts("stay-a"), runner.starts("stay-b")]).toEqual([1, 1]);
    expect(bench.reports.filter(({ task_id }) => /^stay-[ab]$/.test(task_id))).toHaveLength(2);
  });

  test("before it accepted: the next runner accepts and starts the agent", async () => {
    const runner = bench.runner({ qa: {} });
    const id = await offer("work-before", "qa");
    const { offer_digest } = await handoff(id);
    runner.writeRecord(agentRecord(id, "work-before", { offer_digest: offer_digest ?? "" }), PROMPT);
    const stop = await runner.start();
    expect(await bench.reported("work-before")).toMatchObject({
      class: "completed",
      agent_id: "qa-work-before",
    });
    expect(await task("work-before")).toMatchObject({ fence: 1, owner: "qa-work-before" });
    await expect.poll(() => bench.offers()).toBe(0);
    await stop();
  });

  test("after it accepted, recorded or not: the agent is started once, under the same fence", async () => {
    const runner = bench.runner({ qa: {} });
    for (const name of ["work-sent", "work-noted"]) {
      const id = await offer(name, "qa");
      const { offer_digest: digest } = await handoff(id);
      const record = agentRecord(id, name, { offer_digest: digest ?? "" });
      const client = await connect({
        url: bench.writer.nats.url,
        agentId: record.agent_id,
        fallback: "none",
      });
      const offered = {
        task_id: name,
        handoff_id: id,
        agent_type: "qa",
        checkpoint: { id },
        digest: record.offer_digest,
      };
      await client.acknowledgeHandoff(offered, { commandId: record.command_id });
      await client.close();
      runner.writeRecord(name === "work-sent" ? record : { ...record, state: "accepted", fence: 1 }, PROMPT);
    }
    const stop = await runner.start();
    for (const name of ["work-sent", "work-noted"]) {
      expect(await bench.reported(name)).toMatchObject({ class: "completed", fence: 1 });
      expect(runner.starts(name)).toBe(1);
    }
    await stop();
  });

  test("before it started the agent, whose task another agent has taken since: the agent is not started", async () => {
    const runner = bench.runner({ qa: {} });
    const id = await offer("work-gone", "qa");
    runner.writeRecord(agentRecord(id, "work-gone", { state: "accepted", fence: 1 }), PROMPT);
    await send(bench.writer.records.repository, "take", {}, { agent: "other", task: "work-gone" });
    const stop = await runner.start();
    expect(await bench.reported("work-gone")).toMatchObject({
      class: "not_started",
      details: expect.stringContaining("another agent took the task"),
    });
    expect(runner.starts("work-gone")).toBe(0);
    await stop();
  });

  test("after the exit and before the report: the exit is reported once", async () => {
    const runner = bench.runner({ qa: {} });
    const report = exitReport({ agent_id: "qa-work-unreported", task_id: "work-unreported" });
    const ended = agentRecord(uuidv7(), "work-unreported", { state: "ended", fence: 1, report });
    for (let times = 0; times < 2; times += 1) {
      runner.writeRecord(ended, PROMPT);
      const stop = await runner.start();
      await expect.poll(() => runner.records()[0]?.state, { timeout: 10_000 }).toBe("reported");
      await stop();
    }
    await bench.reported("work-unreported");
    expect(bench.reports.filter(({ task_id }) => task_id === "work-unreported")).toHaveLength(1);
  });
});

describe("the error of a second runner names what it lacks:", () => {
  const needs =
    "a second runner on a machine needs its own FLEET_OPS_PORT (0: any free one) and its own FLEET_RUNNER_DIR";

  test("a folder", async () => {
    const runner = bench.runner({ qa: {} });
    const stop = await runner.start();
    await expect(runner.start()).rejects.toMatchObject({
      message: "another runner uses the folder",
      hint: needs,
    });
    await stop();
  });

  test("a port", async () => {
    const first = createServer().listen(0, "127.0.0.1");
    await once(first, "listening");
    const { port } = first.address() as AddressInfo;
    const second = bench.runner({ qa: {} }).spawn({ FLEET_OPS_PORT: String(port) });
    await expect(second).rejects.toThrow(
      `ended with 69:\nfleet-runner: the operations port is taken (host=127.0.0.1, port=${port}); ${needs}\n`,
    );
    first.close();
  });
});
