// Several watchdogs, watchdogs that are killed, stopped or late, and outages of the bus: every failed agent's task is recovered once, and
// no healthy agent loses its task.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type TestAgent, TestAgents } from "../../harness/processes/agents.ts";
import { CLUSTER_ENGINES, TestCluster } from "../../harness/processes/cluster.ts";

const SILENCE_MS = 3_000;
const policy = { defaults: { recovery: { silence_ms: SILENCE_MS } } };
const POLL = { timeout: 60_000, interval: 20 };

describe.each(CLUSTER_ENGINES)("on %s", (engine) => {
  let cluster: TestCluster;
  let agents: TestAgents;
  beforeAll(async () => {
    cluster = await TestCluster.open(engine);
    agents = new TestAgents(cluster.nats.url);
    await Promise.all([cluster.startReader(), cluster.startCoordinator({ policy })]);
  }, 120_000);
  afterEach(async () => {
    agents.kill();
    await cluster.killWatchdogs();
  });
  afterAll(() => cluster?.close());

  /** An agent that owns its task and waits for ever. Each test has its own tenant, which separates its offers from those of others. */
  async function busyAgent(task: string, tenant: string): Promise<TestAgent> {
    const agent = agents.start({ agentId: `agent-of-${task}`, tenant, task, until: 1 });
    await agent.line("waiting");
    return agent;
  }

  /** Resolves when a watchdog has received a heartbeat of the agent and stored its lease. */
  async function untilLeased(task: string): Promise<void> {
    const isLeased = async (): Promise<boolean> => {
      const { leases } = await cluster.repository.recoveryActions.leases(null, 1_000);
      return leases.some((lease) => lease.task === task);
    };
    await expect.poll(isLeased, POLL).toBe(true);
  }

  const count = async (task: string, tenant: string, type: string): Promise<number> =>
    (await cluster.events(task, tenant)).filter((event) => event.type === type).length;

  /** Asserts that another agent completes the task, after one failure and one attempt. */
  async function expectOneRecovery(task: string, tenant: string): Promise<void> {
    const next = agents.start({ agentId: `next-of-${task}`, tenant });
    expect(await next.line("outcome")).toMatchObject({ outcome: "completed" });
    for (const type of ["AGENT_FAILED", "RECOVERY_INITIATED", "RECOVERY_COMPLETED"])
      expect([type, await count(task, tenant, type)]).toEqual([type, 1]);
  }

  /** Kills an agent and asserts that its task is recovered, while the other agent keeps its task. */
  async function expectOnlyKilledRecovered(
    healthy: string,
    killed: TestAgent,
    task: string,
    tenant: string,
  ): Promise<void> {
    killed.signal("SIGKILL");
    await expectOneRecovery(task, tenant);
    expect(await count(healthy, tenant, "AGENT_FAILED")).toBe(0);
    expect(await cluster.repository.task(tenant, healthy)).toMatchObject({
      owner: `agent-of-${healthy}`,
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
      async (point) => {
        const name = `killed-${point.replace(":", "-")}`;
        const killed = await cluster.startWatchdog({ policy, killAt: point });
        const agent = await busyAgent(name, name);
        await untilLeased(name);
        agent.signal("SIGKILL");
        expect(await killed.ended).toBe("SIGKILL");
        await cluster.startWatchdog({ policy });
        await expectOneRecovery(name, name);
      },
      120_000,
    );

    test("while another watchdog runs, which continues at once", async () => {
      const name = "one-of-two";
      const killed = await cluster.startWatchdog({ policy, killAt: "after:note_failure" });
      const agent = await busyAgent(name, name);
      await untilLeased(name);
      // Started later, so that the other watchdog is the first to record the failure.
      await cluster.startWatchdog({ policy });
      agent.signal("SIGKILL");
      await expectOneRecovery(name, name);
      await killed.kill9();
    }, 120_000);
  });

  test("two watchdogs recover twenty agents that fail together, each of them once", async () => {
    await Promise.all([cluster.startWatchdog({ policy }), cluster.startWatchdog({ policy })]);
    const tenant = "twenty";
    const tasks = Array.from({ length: 20 }, (_, i) => `twenty-${i}`);
    // Each agent sends one heartbeat and then falls silent.
    for (const task of tasks) {
      await cluster.command("take", task, {}, { tenant, agent: `agent-of-${task}` });
      await cluster.write(task, { tenant, agent: `agent-of-${task}`, fence: 1 });
    }
    const sendHeartbeat = (task: string): void =>
      cluster.bus.publish(SUBJECTS.heartbeat(tenant, `agent-of-${task}`), {
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
    for (const task of tasks) sendHeartbeat(task);
    const attempted = async (): Promise<number> => {
      const heads = await cluster.repository.recoveryActions.heads(tenant, tasks);
      return heads.filter((head) => head?.recovery?.state === "attempted").length;
    };
    await expect.poll(attempted, POLL).toBe(tasks.length);
    for (const task of tasks) {
      expect([task, await count(task, tenant, "AGENT_FAILED")]).toEqual([task, 1]);
      expect([task, await count(task, tenant, "RECOVERY_INITIATED")]).toEqual([task, 1]);
    }
  }, 120_000);

  test("a watchdog that is stopped during a recovery does not repeat it when it continues", async () => {
    const name = "stopped-during";
    const stopped = await cluster.startWatchdog({ policy, pauseAt: "before:attempt_recovery" });
    const agent = await busyAgent(name, name);
    await untilLeased(name);
    agent.signal("SIGKILL");
    const recoveryState = async () => (await cluster.repository.task(name, name)).recovery?.state;
    await expect.poll(recoveryState, POLL).toBe("waiting");
    await cluster.startWatchdog({ policy });
    await expectOneRecovery(name, name);
    stopped.resume();
    // It does other work, which shows that it has finished with the recovery.
    const other = "stopped-later";
    const second = await busyAgent(other, other);
    await untilLeased(other);
    second.signal("SIGKILL");
    await expectOneRecovery(other, other);
    expect(await count(name, name, "RECOVERY_INITIATED")).toBe(1);
  }, 120_000);

  test("a watchdog that was stopped for longer than the silence timeout recovers no healthy agent", async () => {
    const tenant = "stopped";
    const watchdog = await cluster.startWatchdog({ policy });
    const [, killed] = [await busyAgent("awake", tenant), await busyAgent("asleep", tenant)];
    await untilLeased("awake");
    await untilLeased("asleep");
    watchdog.pause();
    await sleep(2 * SILENCE_MS);
    watchdog.resume();
    await expectOnlyKilledRecovered("awake", killed, "asleep", tenant);
  }, 120_000);

  test("a task whose agent failed while no watchdog was running is recovered", async () => {
    const name = "unwatched";
    const first = await cluster.startWatchdog({ policy });
    const agent = await busyAgent(name, name);
    await untilLeased(name);
    await first.kill9();
    agent.signal("SIGKILL");
    await agent.ended;
    await cluster.startWatchdog({ policy });
    await expectOneRecovery(name, name);
  }, 120_000);

  describe("no healthy agent fails in an outage of the bus longer than the silence timeout", () => {
    test.each([
      ["paused", () => cluster.nats.pause(), async () => cluster.nats.resume()],
      ["killed", () => cluster.nats.kill9(), () => cluster.nats.restart()],
    ])(
      "%s",
      async (outage, begin, end) => {
        const tenant = `bus-${outage}`;
        await cluster.startWatchdog({ policy });
        const [healthy, failed] = [`${outage}-healthy`, `${outage}-failed`];
        await busyAgent(healthy, tenant);
        const killed = await busyAgent(failed, tenant);
        await untilLeased(healthy);
        await untilLeased(failed);
        await begin();
        await sleep(2 * SILENCE_MS);
        await end();
        await expectOnlyKilledRecovered(healthy, killed, failed, tenant);
      },
      120_000,
    );
  });
});
