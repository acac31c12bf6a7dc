// An agent's last words wait in the queue when its end is reported: they are applied first, and nobody waits for ever.

import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createMeetingDamage } from "../../../../services/watchdog/detection/damaged-head.ts";
import { startReports } from "../../../../services/watchdog/detection/exit-reports.ts";
import { Patience } from "../../../../services/watchdog/detection/pending-writes.ts";
import { createNoting } from "../../../../services/watchdog/detection/record-failure.ts";
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

const PATIENTLY = { timeout: 25_000 };

describe("patience", () => {
  /** Looks every half second; how long that goes on, from the first look to the last. */
  function lasts(patience: Patience, seq: number, fromMs: number): number {
    let ms = fromMs;
    while (patience.isLeft(seq, ms)) ms += 500;
    return ms - fromMs;
  }

  test("lasts for half a minute of looking, for each report by itself", () => {
    const patience = new Patience();
    expect(lasts(patience, 1, 1_000)).toBe(30_000);
    expect(patience.isLeft(1, 90_000)).toBe(false);
    expect(lasts(patience, 2, 20_000)).toBe(30_000);
  });

  test("is not used up while nobody can look", () => {
    const patience = new Patience();
    expect(patience.isLeft(1, 0)).toBe(true);
    expect(patience.isLeft(1, 3_600_000)).toBe(true);
    expect(lasts(patience, 1, 3_600_500)).toBe(27_500);
  });

  test("of any number of reports takes bounded memory, and begins anew for one that is over", () => {
    const patience = new Patience();
    patience.isLeft(1, 0);
    patience.end(1);
    expect(patience.isLeft(1, 60_000)).toBe(true);
    for (let seq = 2; seq <= 30_000; seq += 1) expect(patience.isLeft(seq, 60_000)).toBe(true);
    // It was forgotten.
    expect(patience.isLeft(1, 90_001)).toBe(true);
  });
});

describe("reports", () => {
  let writer: InProcessFleet;
  let stop: Stop;
  /** How often each report was looked at. */
  let looks: Map<string, number>;

  beforeEach(async () => {
    writer = await openInProcessWriter();
    looks = new Map();
  });
  afterEach(async () => {
    await stop();
    await writer.close();
  });

  /** Begins to see to reports. */
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
    const note = createNoting(context, repository, {
      controller,
      meetDamage: createMeetingDamage(context, repository),
      agentTypes: knownAgentTypes([]),
    });
    stop = startReports({ ...context, backgroundBus: counting }, repository, note);
  }

  async function report(task: string, failureClass: FailureClass): Promise<void> {
    const at = new Date().toISOString();
    const body = {
      agent_id: "agent-1",
      agent_type: "qa",
      task_id: task,
      fence: 1,
      class: failureClass,
      exit_code: null,
      signal: null,
      started_at: at,
      ended_at: at,
      host: "test",
    };
    await writer.publish(SUBJECTS.exit("default", "agent-1", task), {
      body: Buffer.from(JSON.stringify(body)),
    });
  }

  const ownerOf = async (task: string) => (await writer.records.repository.task("default", task)).owner;

  test.each(["crash", "completed"] as const)(
    "of an agent whose end is a %s wait for what it has queued",
    async (ended) => {
      const task = "task-1";
      expect(await writer.send("take", { command_id: uuidv7() }, { task })).toMatchObject({ fence: 1 });
      await writer.stopAll();
      const words = [creation({ fence: 1 }), creation({ fence: 1 })];
      for (const one of words) await writer.enqueue("create", one, { task });
      await report(task, ended);
      start();
      await expect
        .poll(() => looks.get(SUBJECTS.exit("default", "agent-1", task)) ?? 0, PATIENTLY)
        .toBeGreaterThan(1);
      expect(await ownerOf(task)).toBe("agent-1");
      await writer.startWriter();
      await expect.poll(() => ownerOf(task), PATIENTLY).toBe(null);
      expect(await writer.applied(task)).toEqual(words.map(({ command_id }) => command_id));
      expect(await writer.letters()).toEqual([]);
    },
  );

  test("wait for nothing that others have queued, or that was queued for another task", async () => {
    for (const task of ["task-1", "task-2"]) await writer.send("take", { command_id: uuidv7() }, { task });
    await writer.stopAll();
    await writer.enqueue("create", creation(), { task: "task-1", agent: "agent-2" });
    await writer.enqueue("create", creation({ fence: 1 }), { task: "task-2" });
    await report("task-1", "crash");
    start();
    await expect.poll(() => ownerOf("task-1"), PATIENTLY).toBe(null);
    expect(await ownerOf("task-2")).toBe("agent-1");
  });
});
