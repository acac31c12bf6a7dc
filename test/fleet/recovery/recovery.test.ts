// Recovery through real processes: agents that are killed, stopped, hang, crash or end, and the recovery of their tasks.

import { uuidv7 } from "uuidv7";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { alertText } from "../../../shared/protocol/alert-text.ts";
import type { Alert } from "../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import type { FailureClass } from "../../../shared/protocol/exit-report.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Offer } from "../../../shared/protocol/offer.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { Task } from "../../../shared/protocol/task.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { TestAgents } from "../../harness/processes/agents.ts";
import { CLUSTER_ENGINES, TestCluster } from "../../harness/processes/cluster.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { input } from "../../harness/records/records.ts";

const TYPE = "implementation";
const policy = {
  // Long enough that a healthy agent on a loaded machine is never silent for that time.
  defaults: { recovery: { silence_ms: 3_000, back_off_ms: 1_000, back_off_max_ms: 1_000 } },
  // In this tenant the silence timeout is longer than any test.
  tenants: { patient: { defaults: { recovery: { silence_ms: 600_000 } } } },
};

describe.each(CLUSTER_ENGINES)("on %s", (engine) => {
  let cluster: TestCluster;
  let agents: TestAgents;
  beforeAll(async () => {
    cluster = await TestCluster.open(engine);
    agents = new TestAgents(cluster.nats.url);
    await Promise.all([
      cluster.startReader(),
      cluster.startCoordinator({ policy }),
      cluster.startWatchdog({ policy }),
    ]);
  }, 120_000);
  afterEach(() => agents.kill());
  afterAll(() => cluster?.close());

  const ofType = async <T extends FleetEvent["type"]>(type: T, task: string, tenant = "default") =>
    (await cluster.events(task, tenant)).filter((event) => event.type === type) as FleetEvent<T>[];
  const POLL = { timeout: 60_000, interval: 20 };

  async function until(task: string, holds: (head: Task) => boolean, tenant = "default"): Promise<Task> {
    await expect.poll(async () => holds(await cluster.repository.task(tenant, task)), POLL).toBe(true);
    return cluster.repository.task(tenant, task);
  }

  /** Reports the end of an agent, as a runner does. */
  function report(
    task: string,
    agent: string,
    fence: number,
    failureClass: FailureClass,
    tenant = "default",
    { agentType = TYPE, details }: { agentType?: string; details?: string } = {},
  ) {
    const body = exitReport({
      agent_id: agent,
      agent_type: agentType,
      task_id: task,
      fence,
      class: failureClass,
      exit_code: null,
      ...(details !== undefined && { details }),
    });
    return cluster.bus.publishDurable(
      SUBJECTS.exit(tenant, agent, task),
      { body: Buffer.from(JSON.stringify(body)) },
      { messageId: uuidv7(), timeoutMs: 5_000 },
    );
  }

  /** A task that `agent` owns under fence 1, with one checkpoint. */
  async function ownedTask(task: string, agent: string, tenant = "default"): Promise<string> {
    await cluster.command("take", task, {}, { tenant, agent });
    const { checkpoint_id: id } = await cluster.write(task, { tenant, agent, fence: 1 });
    return id as string;
  }

  describe("silence", () => {
    test("a killed agent loses its task, and another agent resumes from its checkpoint", async () => {
      const task = "killed";
      const first = agents.start({ agentId: "first", task, until: 1 });
      await first.line("waiting");
      first.signal("SIGKILL");
      const second = agents.start({ agentId: "second" });
      const latest = (await cluster.repository.task("default", task)).latest_id;
      expect((await second.line("began")).began).toEqual({
        task,
        fence: 3,
        resumedFrom: latest,
        recovery: { attempt: 1, class: "crash" },
      });
      expect(await second.line("outcome")).toMatchObject({ outcome: "completed" });
      expect(second.lines.filter(({ done }) => done).map(({ done }) => done)).toEqual(["item 2", "item 3"]);
      const types = (await cluster.events(task)).map(({ type }) => type);
      expect(types.filter((type) => !type.startsWith("CHECKPOINT"))).toEqual([
        "TASK_TAKEN",
        "AGENT_FAILED",
        "RECOVERY_INITIATED",
        "AGENT_HANDOFF",
        "HANDOFF_VALIDATED",
        "HANDOFF_OFFERED",
        "HANDOFF_ACKNOWLEDGED",
        "HANDOFF_CONFIRMED",
        "RECOVERY_COMPLETED",
        "RECOVERY_SETTLED",
      ]);
      const [failed] = await ofType("AGENT_FAILED", task);
      expect(failed?.data).toMatchObject({
        agentId: "first",
        class: "crash",
        signal: "lease_lapsed",
        fence: 1,
      });
    }, 120_000);

    test("a stopped agent loses its task, and is refused when it continues", async () => {
      const task = "stopped";
      const first = agents.start({ agentId: "first", task, until: 1 });
      await first.line("waiting");
      first.signal("SIGSTOP");
      const second = agents.start({ agentId: "second" });
      expect(await second.line("outcome")).toMatchObject({ outcome: "completed" });
      first.signal("SIGCONT");
      expect(await first.line("outcome")).toMatchObject({ outcome: "fenced" });
      const late = await cluster.command(
        "create",
        task,
        { checkpoint: input() },
        { agent: "first", fence: 1 },
      );
      expect(late).toMatchObject({ status: "error", error: { code: "FENCED" } });
      expect(await ofType("AGENT_FAILED", task)).toHaveLength(1);
    }, 120_000);

    test("an agent that announced heartbeats and sent none loses its task, and one that announced none keeps it", async () => {
      await cluster.command("take", "unheard", { heartbeats: true }, { agent: "first" });
      await cluster.command("take", "quiet", {}, { agent: "first" });
      const { owner, fence } = await until("unheard", ({ owner: one }) => one === null);
      expect({ owner, fence }).toEqual({ owner: null, fence: 2 });
      const [failed] = await ofType("AGENT_FAILED", "unheard");
      expect(failed?.data).toMatchObject({ agentId: "first", signal: "lease_lapsed", fence: 1 });
      expect(await cluster.repository.task("default", "quiet")).toMatchObject({ owner: "first", fence: 1 });
    }, 120_000);

    test("an agent with an overdue step has failed, although it sends heartbeats", async () => {
      const task = "overdue";
      const first = agents.start({ agentId: "first", task, until: 1, after: "step" });
      await first.line("waiting");
      const second = agents.start({ agentId: "second" });
      expect((await second.line("began")).began).toMatchObject({
        recovery: { attempt: 1, class: "timeout" },
      });
      const [failed] = await ofType("AGENT_FAILED", task);
      expect(failed?.data).toMatchObject({ agentId: "first", signal: "step_overdue" });
      // The agent notices the loss of its task.
      expect(await first.line("outcome")).toMatchObject({ outcome: "fenced" });
    }, 120_000);
  });

  describe("reports", () => {
    test("a task is recovered at once when its agent reports a failure", async () => {
      const [task, tenant] = ["threw", "patient"];
      const second = agents.start({ agentId: "second", tenant });
      const first = agents.start({ agentId: "first", tenant, task, until: 1, after: "throw" });
      await first.line("failed");
      const { began } = await second.line("began");
      expect(began).toMatchObject({ task, recovery: { attempt: 1, class: "crash" } });
      expect(await second.line("outcome")).toMatchObject({ outcome: "completed" });
      const [failed] = await ofType("AGENT_FAILED", task, tenant);
      expect(failed?.data).toMatchObject({ agentId: "first", signal: "exit_report" });
    }, 120_000);

    test("after a report with an unknown agent type the next agent has the type of the task", async () => {
      const [task, tenant, agent] = ["misnamed", "patient", "first"];
      await ownedTask(task, agent, tenant);
      await report(task, agent, 1, "crash", tenant, { agentType: "astronomy" });
      const second = agents.start({ agentId: "second", tenant });
      expect((await second.line("began")).began).toMatchObject({ task, recovery: { attempt: 1 } });
      expect(await cluster.repository.task(tenant, task)).toMatchObject({
        recovery: { failure: { agent_type: TYPE } },
        blocked: null,
      });
    }, 120_000);

    test("a report about a completed task is not a failure", async () => {
      await ownedTask("marker", "other");
      const first = agents.start({ agentId: "first", task: "done" });
      expect(await first.line("outcome")).toMatchObject({ outcome: "completed" });
      await report("done", "first", 1, "crash");
      await report("done", "first", 1, "completed");
      await report("marker", "other", 1, "completed");
      await until("marker", ({ owner }) => owner === null);
      expect(await cluster.repository.task("default", "done")).toMatchObject({
        state: "completed",
        owner: "first",
      });
      expect(await ofType("AGENT_FAILED", "done")).toEqual([]);
      // The report says completed, but the task was not.
      const [failed] = await ofType("AGENT_FAILED", "marker");
      expect(failed?.data).toMatchObject({ class: "completed" });
    }, 120_000);

    test("invalid reports and reports about tasks of other agents change nothing and delay no report", async () => {
      await ownedTask("foreign", "owner");
      await report("foreign", "another", 1, "crash");
      await report("foreign", "owner", 0, "crash");
      await report("foreign", "owner", 7, "crash");
      const subject = SUBJECTS.exit("default", "owner", "foreign");
      for (const text of ["", "{", "[]", '{"agent_id":"owner"}']) {
        const options = { messageId: uuidv7(), timeoutMs: 5_000 };
        await cluster.bus.publishDurable(subject, { body: Buffer.from(text) }, options);
      }
      await ownedTask("after", "owner");
      await report("after", "owner", 1, "crash");
      await until("after", ({ owner }) => owner === null);
      expect(await cluster.repository.task("default", "foreign")).toMatchObject({ owner: "owner", fence: 1 });
    }, 120_000);

    test("a task whose agents all crash is blocked after the attempts of the policy", async () => {
      const [task, tenant, agent] = ["loop", "looping", "agent-0"];
      await cluster.command("take", task, {}, { tenant, agent });
      const ids = [];
      for (let i = 0; i < 2; i += 1)
        ids.push((await cluster.write(task, { tenant, agent, fence: 1 })).checkpoint_id);
      const acceptAndCrash = async ({ data }: Offer): Promise<void> => {
        const next = `agent-${data.recovery?.attempt}`;
        const { fence } = await cluster.acknowledge(data, next);
        await report(task, next, fence as number, "crash", tenant);
      };
      await cluster.onOffer(TYPE, acceptAndCrash, tenant);
      await report(task, agent, 1, "crash", tenant);
      const head = await until(task, ({ state }) => state === "blocked", tenant);
      expect(head).toMatchObject({
        owner: null,
        recovery: {
          state: "blocked",
          attempts: 5,
          rung: "previous",
          due_at: null,
        },
        blocked: { reason: "attempts_spent" },
      });
      const attempts = await ofType("RECOVERY_INITIATED", task, tenant);
      expect(attempts.map(({ data }) => data.checkpointId)).toEqual([ids[1], ids[1], ids[1], ids[0], ids[0]]);
      const [alert] = await cluster.alerts<"RECOVERY_BLOCKED">(task, 1);
      expect(alert).toMatchObject({
        type: "RECOVERY_BLOCKED",
        severity: "critical",
        data: { taskId: task, reason: "attempts_spent", class: "crash", attempts: 5 },
      });
    }, 120_000);
  });

  test("an agent that a supervisor restarts after every crash spends the budget, and operators are alerted", async () => {
    const [task, tenant, agent] = ["supervised", "supervised", "coder-7"];
    await ownedTask(task, agent, tenant);
    for (let crashes = 1; ; crashes += 1) {
      const { fence } = await cluster.repository.task(tenant, task);
      await report(task, agent, fence, "crash", tenant);
      const { state, recovery } = await until(task, ({ owner }) => owner === null, tenant);
      if (state === "blocked") break;
      expect(crashes).toBeLessThan(7);
      expect(recovery?.failures).toBe(crashes);
      await cluster.command("take", task, {}, { tenant, agent });
    }
    const [alert] = await cluster.alerts<"RECOVERY_BLOCKED">(task, 1);
    expect(alert?.data).toMatchObject({ reason: "attempts_spent", agentId: agent, attempts: 5 });

    // The supervisor restarts it again, and it fails by silence and by a report: the task stays blocked under the same alert.
    for (const failure of ["silence", "report"]) {
      const { fence } = await cluster.command("take", task, { heartbeats: true }, { tenant, agent });
      if (failure === "report") await report(task, agent, fence as number, "crash", tenant);
      const { state, recovery, blocked } = await until(task, ({ owner }) => owner === null, tenant);
      expect({ state, reason: blocked?.reason }).toEqual({
        state: "blocked",
        reason: "attempts_spent",
      });
      expect(recovery).toMatchObject({ attempts: 5, failure: { agent_id: agent } });
      expect(alert?.id).toBe(`${tenant}/${task}/${blocked?.alert_seq}`);
    }
    const blocks = await ofType("TASK_BLOCKED", task, tenant);
    expect(blocks.map(({ data }) => data.alertedSeq)).toEqual([
      undefined,
      blocks[0]?.sequence,
      blocks[0]?.sequence,
    ]);

    // When an operator recovers the unowned task and cancels the attempt, a new block is alerted, without a failure.
    await cluster.command("recover", task, {}, { tenant, agent: "anna" });
    await until(task, ({ handoff_id }) => handoff_id !== null, tenant);
    await cluster.command("cancel_handoff", task, {}, { tenant, agent: "anna" });
    const alerts = await cluster.alerts<"RECOVERY_BLOCKED">(task, 2);
    expect(alerts.map(({ data }) => data.reason)).toEqual(["attempts_spent", "withdrawn"]);
  }, 120_000);

  test("a task is blocked without a failure when an operator forces its recovery and then cancels it", async () => {
    const [task, tenant] = ["forced", "forced"];
    await ownedTask(task, "hanger", tenant);
    await cluster.command("recover", task, { force: true }, { tenant, agent: "anna" });
    await until(task, ({ handoff_id }) => handoff_id !== null, tenant);
    await cluster.command("cancel_handoff", task, {}, { tenant, agent: "anna" });
    const [alert] = await cluster.alerts<"RECOVERY_BLOCKED">(task, 1);
    expect(alert?.data).toMatchObject({ reason: "withdrawn", class: null, agentId: null });
    expect(alertText(alert as Alert).what).toMatch(
      /^Task forced is blocked: withdrawn, 1 attempt made; details: anna cancelled the handoff\.$/,
    );
  }, 120_000);

  test("an alert has the details of the agent's report, truncated and without secrets", async () => {
    const [task, tenant] = ["said", "said"];
    await ownedTask(task, "first", tenant);
    const key = `sk-ant-${"a1".repeat(20)}`;
    const details = `refused: ANTHROPIC_API_KEY=${key}\n\u001b[2J${"and so on ".repeat(200)}`;
    await report(task, "first", 1, "unrecoverable", tenant, { details });
    await until(task, ({ state }) => state === "blocked", tenant);
    const [alert] = await cluster.alerts<"RECOVERY_BLOCKED">(task, 1);
    expect(alert?.data).toMatchObject({ class: "unrecoverable", agentId: "first", reason: "unrecoverable" });
    const said = String(alert?.data.details);
    expect(said).toMatch(/^refused: ANTHROPIC_API_KEY=\[redacted: API key\]\nand so on and .* …$/);
    expect(said.length).toBeLessThanOrEqual(LIMITS.alert_details_chars_max + 2);
  }, 120_000);

  describe("rejected handoffs", () => {
    test("the next agent resumes from the previous checkpoint when the handed-off checkpoint is corrupt", async () => {
      const [task, tenant] = ["damaged", "damaged"];
      const sound = await ownedTask(task, "first", tenant);
      await cluster.killCoordinators();
      const id = await cluster.handOff(task, {}, { tenant, agent: "first", fence: 1 });
      await damage(tenant, task, id);
      await cluster.startCoordinator({ policy });
      const second = agents.start({ agentId: "second", tenant });
      const { began } = await second.line("began");
      expect(began).toMatchObject({
        task,
        resumedFrom: sound,
        recovery: { attempt: 1, class: "corrupt_state" },
      });
      const [failed] = await ofType("AGENT_FAILED", task, tenant);
      expect(failed?.data).toMatchObject({ signal: "handoff_rejected", agentId: null });
      expect(await ofType("CHECKPOINT_CORRUPTED", task, tenant)).toHaveLength(1);
    }, 120_000);
  });

  /** Flips one bit of the stored bytes of a checkpoint. */
  async function damage(tenant: string, task: string, id: string): Promise<void> {
    const key = tenantKeys(tenant).checkpoint(task, id);
    await cluster.store.transact({ label: "damage", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) => {
      const value = Buffer.from((await tx.get(key)) as Uint8Array);
      const index = value.length - 3;
      value[index] = (value[index] as number) ^ 0x20;
      tx.set(key, value);
    });
  }
});
