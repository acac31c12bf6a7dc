// Watchdogs that run side by side, that are killed, frozen or late, and a bus that goes away: whoever failed is recovered once, and nobody
// who lives is.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type TestAgent, TestAgents } from "../../harness/processes/agents.ts";
import { TestCluster } from "../../harness/processes/cluster.ts";

const SILENCE_MS = 3_000;
const policy = { defaults: { recovery: { silence_ms: SILENCE_MS } } };
const SOON = { timeout: 60_000, interval: 20 };

let bench: TestCluster;
let agents: TestAgents;
beforeAll(async () => {
  bench = await TestCluster.open();
  agents = new TestAgents(bench.nats.url);
  await Promise.all([bench.startReader(), bench.startCoordinator({ policy })]);
}, 120_000);
afterEach(async () => {
  agents.kill();
  await bench.killWatchdogs();
});
afterAll(() => bench?.close());

/** An agent that has its task, and will wait for ever. A tenant of its own keeps the offers of the tests apart. */
async function busyAgent(task: string, tenant: string): Promise<TestAgent> {
  const agent = agents.start({ agentId: `agent-of-${task}`, tenant, task, until: 1 });
  await agent.line("waiting");
  return agent;
}

/** Some watchdog has heard the agent, and said so in the store. */
async function untilHeard(task: string): Promise<void> {
  const has = async (): Promise<boolean> => {
    const { leases } = await bench.repository.recovery.leases(null, 1_000);
    return leases.some((lease) => lease.task === task);
  };
  await expect.poll(has, SOON).toBe(true);
}

const count = async (task: string, tenant: string, type: string): Promise<number> =>
  (await bench.events(task, tenant)).filter((event) => event.type === type).length;

/** Another agent has finished the task, after one failure and one attempt. */
async function recoveredOnce(task: string, tenant: string): Promise<void> {
  const next = agents.start({ agentId: `next-of-${task}`, tenant });
  expect(await next.line("outcome")).toMatchObject({ outcome: "completed" });
  for (const type of ["AGENT_FAILED", "RECOVERY_INITIATED", "RECOVERY_COMPLETED"])
    expect([type, await count(task, tenant, type)]).toEqual([type, 1]);
}

/** Of two agents the one that is killed is recovered: so much later, the other one has lost nothing. */
async function onlyTheDeadIsRecovered(
  living: string,
  dead: TestAgent,
  task: string,
  tenant: string,
): Promise<void> {
  dead.signal("SIGKILL");
  await recoveredOnce(task, tenant);
  expect(await count(living, tenant, "AGENT_FAILED")).toBe(0);
  expect(await bench.repository.task(tenant, living)).toMatchObject({
    owner: `agent-of-${living}`,
    fence: 1,
  });
}

describe("a watchdog is killed", () => {
  test.each([
    "before:note_failure",
    "after:note_failure",
    "before:attempt_recovery",
    "after:attempt_recovery",
  ])(
    "%s",
    async (moment) => {
      const name = `killed-${moment.replace(":", "-")}`;
      const dying = await bench.startWatchdog({ policy, killAt: moment });
      const agent = await busyAgent(name, name);
      await untilHeard(name);
      agent.signal("SIGKILL");
      expect(await dying.ended).toBe("SIGKILL");
      await bench.startWatchdog({ policy });
      await recoveredOnce(name, name);
    },
    120_000,
  );

  test("while another one watches, which goes on at once", async () => {
    const name = "one-of-two";
    const dying = await bench.startWatchdog({ policy, killAt: "after:note_failure" });
    const agent = await busyAgent(name, name);
    await untilHeard(name);
    // Later, so that the other one is the first to note it.
    await bench.startWatchdog({ policy });
    agent.signal("SIGKILL");
    await recoveredOnce(name, name);
    await dying.kill9();
  }, 120_000);
});

test("two watchdogs recover twenty agents that die at once, each once", async () => {
  await Promise.all([bench.startWatchdog({ policy }), bench.startWatchdog({ policy })]);
  const tenant = "twenty";
  const tasks = Array.from({ length: 20 }, (_, i) => `twenty-${i}`);
  // Each says once that it lives, and then nothing more.
  for (const task of tasks) {
    await bench.command("take", task, {}, { tenant, agent: `agent-of-${task}` });
    await bench.write(task, { tenant, agent: `agent-of-${task}`, fence: 1 });
  }
  const beat = (task: string): void =>
    bench.bus.publish(SUBJECTS.heartbeat(tenant, `agent-of-${task}`), {
      body: Buffer.from(
        JSON.stringify({
          agent_id: `agent-of-${task}`,
          agent_type: "implementation",
          task_id: task,
          fence: 1,
          state: "working",
          sent_at: new Date().toISOString(),
        }),
      ),
    });
  for (const task of tasks) beat(task);
  for (const task of tasks) await untilHeard(task);
  const failed = async (): Promise<number> => {
    const heads = await bench.repository.recovery.heads(tenant, tasks);
    return heads.filter((head) => head?.recovery?.state === "attempted").length;
  };
  await expect.poll(failed, SOON).toBe(tasks.length);
  for (const task of tasks) {
    expect([task, await count(task, tenant, "AGENT_FAILED")]).toEqual([task, 1]);
    expect([task, await count(task, tenant, "RECOVERY_INITIATED")]).toEqual([task, 1]);
  }
}, 120_000);

test("a watchdog that is frozen in the middle of a recovery finds it made when it wakes", async () => {
  const name = "frozen-midway";
  const frozen = await bench.startWatchdog({ policy, pauseAt: "before:attempt_recovery" });
  const agent = await busyAgent(name, name);
  await untilHeard(name);
  agent.signal("SIGKILL");
  const noted = async () => (await bench.repository.task(name, name)).recovery?.state;
  await expect.poll(noted, SOON).toBe("waiting");
  await bench.startWatchdog({ policy });
  await recoveredOnce(name, name);
  frozen.resume();
  // It goes on with its own work, which shows that it is done with that.
  const other = "frozen-later";
  const second = await busyAgent(other, other);
  await untilHeard(other);
  second.signal("SIGKILL");
  await recoveredOnce(other, other);
  expect(await count(name, name, "RECOVERY_INITIATED")).toBe(1);
}, 120_000);

test("a watchdog that was frozen for longer than the silence recovers nobody who lives", async () => {
  const tenant = "frozen";
  const watchdog = await bench.startWatchdog({ policy });
  const [, dead] = [await busyAgent("awake", tenant), await busyAgent("asleep", tenant)];
  await untilHeard("awake");
  await untilHeard("asleep");
  watchdog.pause();
  await sleep(2 * SILENCE_MS);
  watchdog.resume();
  await onlyTheDeadIsRecovered("awake", dead, "asleep", tenant);
}, 120_000);

test("tasks are found whose agents died while nobody watched", async () => {
  const name = "unwatched";
  const first = await bench.startWatchdog({ policy });
  const agent = await busyAgent(name, name);
  await untilHeard(name);
  await first.kill9();
  agent.signal("SIGKILL");
  await agent.ended;
  await bench.startWatchdog({ policy });
  await recoveredOnce(name, name);
}, 120_000);

describe("while the bus is away for longer than the silence nobody is taken for dead", () => {
  test.each([
    ["frozen", () => bench.nats.pause(), async () => bench.nats.resume()],
    ["gone", () => bench.nats.kill9(), () => bench.nats.restart()],
  ])(
    "%s",
    async (how, leave, comeBack) => {
      const tenant = `bus-${how}`;
      await bench.startWatchdog({ policy });
      const [living, dead] = [`${how}-living`, `${how}-dead`];
      await busyAgent(living, tenant);
      const dying = await busyAgent(dead, tenant);
      await untilHeard(living);
      await untilHeard(dead);
      await leave();
      await sleep(2 * SILENCE_MS);
      await comeBack();
      await onlyTheDeadIsRecovered(living, dying, dead, tenant);
    },
    120_000,
  );
});
