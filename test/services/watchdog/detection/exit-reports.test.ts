// Exit reports: pending writes in the queue are applied first, an open handoff is awaited, no report waits for ever.

import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createDamageReporter } from "../../../../services/watchdog/detection/damaged-head.ts";
import { startExitReports } from "../../../../services/watchdog/detection/exit-reports.ts";
import { PendingWritesWait } from "../../../../services/watchdog/detection/pending-writes.ts";
import {
  createFailureRecorder,
  type RecordFailure,
} from "../../../../services/watchdog/detection/record-failure.ts";
import { createAdmission } from "../../../../services/watchdog/recovery/admission.ts";
import { takeRecoverySteps } from "../../../../services/watchdog/recovery/recovery-controller.ts";
import type { Bus } from "../../../../shared/bus/bus.ts";
import type { FailureClass } from "../../../../shared/protocol/exit-report.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import type { RecoveryPlace } from "../../../../shared/records/recovery/due.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";
import { knownAgentTypes } from "../../../../shared/service-host/policy-file.ts";
import { creation, type InProcessFleet, openInProcessWriter } from "../../../harness/in-process-fleet.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { exitReport } from "../../../harness/records/exit-reports.ts";
import { acknowledge, offer } from "../../../harness/records/handoffs.ts";

const SLOWLY = { timeout: 25_000 };

describe("the wait", () => {
  /** Checks every half second. Returns the time from the first check to the last. */
  function lasts(wait: PendingWritesWait, seq: number, fromMs: number): number {
    let ms = fromMs;
    while (wait.isLeft(seq, ms)) ms += 500;
    return ms - fromMs;
  }

  test("ends after half a minute of checks, for each report separately", () => {
    const wait = new PendingWritesWait();
    expect(lasts(wait, 1, 1_000)).toBe(30_000);
    expect(wait.isLeft(1, 90_000)).toBe(false);
    expect(lasts(wait, 2, 20_000)).toBe(30_000);
  });

  test("does not count the time in which nothing was checked", () => {
    const wait = new PendingWritesWait();
    expect(wait.isLeft(1, 0)).toBe(true);
    expect(wait.isLeft(1, 3_600_000)).toBe(true);
    expect(lasts(wait, 1, 3_600_500)).toBe(27_500);
  });

  test("takes bounded memory for any number of reports, and starts again after its end", () => {
    const wait = new PendingWritesWait();
    wait.isLeft(1, 0);
    wait.end(1);
    expect(wait.isLeft(1, 60_000)).toBe(true);
    for (let seq = 2; seq <= 30_000; seq += 1) expect(wait.isLeft(seq, 60_000)).toBe(true);
    // It has been forgotten.
    expect(wait.isLeft(1, 90_001)).toBe(true);
  });
});

describe("exit reports", () => {
  let writer: InProcessFleet;
  let stop: Stop;
  /** How often each report was handled. */
  let looks: Map<string, number>;
  /** The results of the reports, in order. */
  let results: string[];

  beforeEach(async () => {
    writer = await openInProcessWriter();
    looks = new Map();
    results = [];
  });
  afterEach(async () => {
    await stop();
    await writer.close();
  });

  /** Starts handling reports. */
  function start(): void {
    const { bus, records } = writer;
    const counting: Bus = Object.create(bus, {
      stream: { value: (name: string) => bus.stream(name) },
      consume: {
        value: (...[options, handle]: Parameters<Bus["consume"]>) =>
          bus.consume(options, async (message) => {
            looks.set(message.subject, Math.max(looks.get(message.subject) ?? 0, message.deliveries));
            await handle(message);
          }),
      },
    });
    const context = { clock: systemClock, log: testLog, metrics: createMetrics({ ofProcess: false }) };
    const { repository } = records;
    const admission = createAdmission(repository, systemClock, 256);
    const controller = {
      wake: (due: RecoveryPlace) => takeRecoverySteps(systemClock, repository, admission, due),
    };
    const recordFailure = createFailureRecorder(context, repository, {
      controller,
      reportDamage: createDamageReporter(context, repository),
      agentTypes: knownAgentTypes([]),
    });
    const recording: RecordFailure = async (...failure) => {
      const recorded = await recordFailure(...failure);
      results.push(recorded.applied ? "recorded" : recorded.why);
      return recorded;
    };
    stop = startExitReports({ ...context, backgroundBus: counting }, repository, recording);
  }

  async function report(task: string, failureClass: FailureClass): Promise<void> {
    const body = exitReport({ agent_id: "agent-1", task_id: task, class: failureClass, exit_code: null });
    await writer.publish(SUBJECTS.exit("default", "agent-1", task), {
      body: Buffer.from(JSON.stringify(body)),
    });
  }

  const ownerOf = async (task: string) => (await writer.records.repository.task("default", task)).owner;

  test.each(["crash", "completed"] as const)(
    "of class %s wait for the pending writes of their agent",
    async (ended) => {
      const task = "task-1";
      expect(await writer.send("take", { command_id: uuidv7() }, { task })).toMatchObject({ fence: 1 });
      await writer.stopAll();
      const words = [creation({ fence: 1 }), creation({ fence: 1 })];
      for (const one of words) await writer.enqueue("create", one, { task });
      await report(task, ended);
      start();
      await expect
        .poll(() => looks.get(SUBJECTS.exit("default", "agent-1", task)) ?? 0, SLOWLY)
        .toBeGreaterThan(1);
      expect(await ownerOf(task)).toBe("agent-1");
      await writer.startWriter();
      await expect.poll(() => ownerOf(task), SLOWLY).toBe(null);
      expect(await writer.applied(task)).toEqual(words.map(({ command_id }) => command_id));
      expect(await writer.letters()).toEqual([]);
    },
  );

  test("do not wait for the writes of other agents or for another task", async () => {
    for (const task of ["task-1", "task-2"]) await writer.send("take", { command_id: uuidv7() }, { task });
    await writer.stopAll();
    await writer.enqueue("create", creation(), { task: "task-1", agent: "agent-2" });
    await writer.enqueue("create", creation({ fence: 1 }), { task: "task-2" });
    await report("task-1", "crash");
    start();
    await expect.poll(() => ownerOf("task-1"), SLOWLY).toBe(null);
    expect(await ownerOf("task-2")).toBe("agent-1");
  });

  describe("during an open handoff", () => {
    const task = "task-1";
    let handoffId: string;

    beforeEach(async () => {
      await writer.send("take", { command_id: uuidv7() }, { task });
      await writer.send("create", creation({ fence: 1 }), { task });
      const handoff = { command_id: uuidv7(), to_agent_type: "qa", fence: 1 };
      const answer = await writer.send("handoff", handoff, { task });
      handoffId = answer.handoff_id as string;
      await report(task, "crash");
      start();
      await expect.poll(() => results, SLOWLY).toContain("handing_off");
      expect(await ownerOf(task)).toBe("agent-1");
    });

    test("are recorded when the handoff is cancelled: the task would stay with an exited agent", async () => {
      const cancel = { command_id: uuidv7(), handoff_id: handoffId, fence: 1 };
      expect(await writer.send("cancel_handoff", cancel, { task })).not.toHaveProperty("error");
      await expect.poll(() => results.at(-1), SLOWLY).toBe("recorded");
      const { owner, recovery } = await writer.records.repository.task("default", task);
      expect(owner).toBe(null);
      expect(recovery).toMatchObject({
        state: "attempted",
        failure: { class: "crash", agent_id: "agent-1" },
      });
    });

    test("end when the next agent has accepted the handoff", async () => {
      const { repository } = writer.records;
      await acknowledge(repository, await offer(repository, handoffId), { agent: "agent-2" });
      await expect.poll(() => results.at(-1), SLOWLY).toBe("superseded");
      expect(await ownerOf(task)).toBe("agent-2");
    });
  });
});
