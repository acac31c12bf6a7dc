// Blocked tasks that are retried together: the result of each, and the end of the retries if the fleet stops answering.

import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type RetryResult,
  renderBlocked,
  renderRetryResult,
  retryResultData,
  retrySummary,
} from "../../../../services/cli/rendering/recovery/blocked.ts";
import { start } from "../../../../services/reader/reader.ts";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../../shared/bus/streams/streams.ts";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { RecoveryResult, Task } from "../../../../shared/sdk/sdk.ts";
import { unguardedDisk } from "../../../harness/disk.ts";
import { startNats, type TestNats, testLog } from "../../../harness/processes/nats.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { noteFailure } from "../../../harness/records/recoveries.ts";
import { callCli } from "../call.ts";
import { view } from "./view.ts";

let nats: TestNats;
let bus: Bus;
let records: TestRecords;
let stop: () => Promise<void>;

/** A fleet with a reader and without a writer. */
beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
  records = await openTestRecords("lmdb");
  const { store, format } = records;
  const parts = { log: testLog, metrics: createMetrics(), clock: systemClock, bus, store, format };
  stop = await start({
    ...parts,
    config: { agentTypes: [], policies: DEFAULT_POLICIES },
    instance: "reader-1",
    leases: createLeaderLeases(store, "reader-1", Date.now),
    disk: unguardedDisk,
  });
});
afterAll(async () => {
  await stop?.();
  await records?.close();
  await bus?.close();
  await nats?.stop();
});

test("if the fleet does not answer, the remaining tasks stay as they are", async () => {
  const tasks = ["auth", "billing", "search"];
  for (const task of tasks) {
    await send(records.repository, "take", {}, { task });
    await create(records.repository, { task, fence: 1 });
    await noteFailure(records.repository, task, { class: "unrecoverable" });
  }
  const call = ["recovery", "run", "--blocked", "--yes", "--json", "--timeout", "1s"];
  const { exit, out, err } = await callCli(call, { env: { FLEET_URL: nats.url } });
  expect(exit).toBe(69);
  expect(JSON.parse(out)).toMatchObject({
    ...{ task_id: "auth", outcome: "failed", error: { code: "UNAVAILABLE" } },
  });
  expect(JSON.parse(err)).toEqual({
    note: "0 requested, 1 failed; 2 not tried, repeat the call to continue",
  });
  for (const task of tasks) {
    const { recovery, fence } = await records.repository.task("default", task);
    expect([recovery?.state, fence]).toEqual(["blocked", 2]);
  }
}, 60_000);

test("blocked tasks are listed with the reasons of their blocks", () => {
  const failure = { class: "tool_error", signal: "exit_report", agent_id: "agent-7", agent_type: "qa" };
  const blocked = { reason: "attempts_spent", details: null, at: "2026-01-04T15:30:00.000Z" };
  const taskOf = (task_id: string, recovery: object): Task =>
    ({
      task_id,
      latest_id: "one",
      agent_type: "implementation",
      blocked,
      recovery: recovery as Recovery,
    }) as Task;
  const session = { view, programName: "fleet" };
  const tasks = [taskOf("auth", { failure }), taskOf("billing", { failure: null })];
  expect(renderBlocked(tasks, [], session).split("\n")).toEqual([
    "TASK     BLOCK           SINCE   AGENT TYPE      LAST FAILURE",
    "auth     attempts spent  5m ago  qa              tool error of agent-7",
    "billing  attempts spent  5m ago  implementation  -",
    "",
    "2 tasks",
  ]);
  const [auth, billing] = tasks as [Task, Task];
  expect(renderBlocked([auth], [billing], session).split("\n")).toEqual([
    "TASK  BLOCK           SINCE   AGENT TYPE  LAST FAILURE",
    "auth  attempts spent  5m ago  qa          tool error of agent-7",
    "",
    "1 task",
    "",
    "Skipped, because it has no checkpoint; `fleet recovery show <task>` shows how to write one:",
    "",
    "TASK     BLOCK           SINCE   AGENT TYPE      LAST FAILURE",
    "billing  attempts spent  5m ago  implementation  -",
  ]);
});

test("the result of each retry is printed as text and as JSON", () => {
  const result = { taskId: "a", recovery: "waiting", checkpointId: null, fence: 4, commandId: "c" };
  const body = { code: "CONFLICT", message: "it l\u001bives", retryable: false } as const;
  const results: RetryResult[] = [
    { taskId: "a", outcome: "asked", result: result as RecoveryResult },
    { taskId: "b", outcome: "passed_over" },
    { taskId: "c", outcome: "failed", failure: { body, exitCode: 5, hint: "Look." } },
  ];
  expect(results.map((one, i) => renderRetryResult(one, { number: i + 1, of: 4 }, view))).toEqual([
    "1 of 4  a  recovery requested, fence 4",
    "2 of 4  b  no longer blocked",
    "3 of 4  c  failed: it l�ives [CONFLICT]",
  ]);
  expect(results.map(retryResultData)).toEqual([
    {
      ...{ task_id: "a", outcome: "asked", recovery: "waiting" },
      ...{ checkpoint_id: null, fence: 4, command_id: "c" },
    },
    { task_id: "b", outcome: "passed_over" },
    { task_id: "c", outcome: "failed", error: { ...body, hint: "Look." } },
  ]);
  expect(retrySummary(results, 3)).toBe("1 requested, 1 no longer blocked, 1 failed");
  expect(retrySummary(results.slice(0, 1), 1)).toBe("1 requested");
});
