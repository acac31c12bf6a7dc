// Blocked tasks that are tried again together: what is said of each, and that a fleet which falls silent in the middle ends it.

import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type RetryResult,
  renderBlocked,
  renderRetryResult,
  retryResultData,
  summary,
} from "../../../../services/cli/rendering/recovery/blocked.ts";
import { start } from "../../../../services/reader/reader.ts";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../../shared/bus/streams/streams.ts";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { RecoveryResult, Task } from "../../../../shared/sdk/sdk.ts";
import { startNats, type TestNats, testLog } from "../../../harness/processes/nats.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { noteFailure } from "../../../harness/records/recoveries.ts";
import { resultOf, startCli } from "../process.ts";
import { view } from "./view.ts";

let nats: TestNats;
let bus: Bus;
let bench: TestRecords;
let stop: () => Promise<void>;

/** A fleet that can be asked, and has nobody who writes. */
beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
  bench = await openTestRecords("lmdb");
  const { store, format } = bench;
  const parts = { log: testLog, metrics: createMetrics(), clock: systemClock, bus, store, format };
  stop = await start({
    ...parts,
    config: { agentTypes: [], policies: DEFAULT_POLICIES },
    instance: "reader-1",
  });
});
afterAll(async () => {
  await stop?.();
  await bench?.close();
  await bus?.close();
  await nats?.stop();
});

test("when nobody answers any more, the others are left as they are", async () => {
  const tasks = ["auth", "billing", "search"];
  for (const task of tasks) {
    await send(bench.repository, "take", {}, { task });
    await create(bench.repository, { task, fence: 1 });
    await noteFailure(bench.repository, task, { class: "unrecoverable" });
  }
  const call = ["recovery", "run", "--blocked", "--yes", "--json", "--timeout", "1s"];
  const { exit, out, err } = await resultOf(startCli(call, { env: { FLEET_URL: nats.url } }));
  expect(exit).toBe(69);
  expect(JSON.parse(out)).toMatchObject({
    ...{ task_id: "auth", outcome: "failed", error: { code: "UNAVAILABLE" } },
  });
  expect(JSON.parse(err)).toEqual({
    note: "0 asked for, 1 failed; 2 not tried, the same call goes on with them",
  });
  for (const task of tasks) {
    const { recovery, fence } = await bench.repository.task("default", task);
    expect([recovery?.state, fence]).toEqual(["blocked", 2]);
  }
}, 60_000);

test("they are listed with what they wait for", () => {
  const failure = { class: "tool_error", signal: "exit_report", agent_id: "agent-7", agent_type: "qa" };
  const blocked = { reason: "attempts_spent", details: null, at: "2026-01-04T15:30:00.000Z" };
  const taskOf = (task_id: string, recovery: object): Task =>
    ({ task_id, latest_id: "one", agent_type: "implementation", recovery: recovery as Recovery }) as Task;
  const called = { view, programName: "fleet" };
  const tasks = [taskOf("auth", { blocked, failure }), taskOf("billing", { blocked, failure: null })];
  expect(renderBlocked(tasks, [], called).split("\n")).toEqual([
    "TASK     BLOCKED         SINCE   AGENT TYPE      LAST FAILURE",
    "auth     attempts spent  5m ago  qa              tool error of agent-7",
    "billing  attempts spent  5m ago  implementation  -",
    "",
    "Total: 2 tasks",
  ]);
  const [auth, billing] = tasks as [Task, Task];
  expect(renderBlocked([auth], [billing], called).split("\n")).toEqual([
    "TASK  BLOCKED         SINCE   AGENT TYPE  LAST FAILURE",
    "auth  attempts spent  5m ago  qa          tool error of agent-7",
    "",
    "Total: 1 task",
    "",
    "Left out, for it needs a checkpoint first; `fleet recovery status <task>` says how:",
    "",
    "TASK     BLOCKED         SINCE   AGENT TYPE      LAST FAILURE",
    "billing  attempts spent  5m ago  implementation  -",
  ]);
});

test("what becomes of each is said, to people and to programs", () => {
  const result = { taskId: "a", recovery: "waiting", checkpointId: null, fence: 4, commandId: "c" };
  const body = { code: "CONFLICT", message: "it l\u001bives", retryable: false } as const;
  const told: RetryResult[] = [
    { taskId: "a", outcome: "asked", result: result as RecoveryResult },
    { taskId: "b", outcome: "passed_over" },
    { taskId: "c", outcome: "failed", failure: { body, exitCode: 5, hint: "Look." } },
  ];
  expect(told.map((one, i) => renderRetryResult(one, { number: i + 1, of: 4 }, view))).toEqual([
    "1 of 4  a  asked for, under fence 4",
    "2 of 4  b  not blocked any more",
    "3 of 4  c  failed: it l�ives [CONFLICT]",
  ]);
  expect(told.map(retryResultData)).toEqual([
    {
      ...{ task_id: "a", outcome: "asked", recovery: "waiting" },
      ...{ checkpoint_id: null, fence: 4, command_id: "c" },
    },
    { task_id: "b", outcome: "passed_over" },
    { task_id: "c", outcome: "failed", error: { ...body, hint: "Look." } },
  ]);
  expect(summary(told, 3)).toBe("1 asked for, 1 not blocked any more, 1 failed");
  expect(summary(told.slice(0, 1), 1)).toBe("1 asked for");
});
