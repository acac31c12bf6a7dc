// The thread of the prompts dies in the middle of a prompt: the coordinator builds the offers again, and no handoff is lost.

import { afterAll, beforeAll, expect, test } from "vitest";
import { start } from "../../../services/coordinator/coordinator.ts";
import { PromptThread } from "../../../services/coordinator/prompt-thread.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { unguardedDisk } from "../../harness/disk.ts";
import { TestCluster } from "../../harness/processes/cluster.ts";
import { testLog } from "../../harness/processes/nats.ts";

const HANDOFFS = 8;
const KILLS = 3;

let cluster: TestCluster;
let thread: PromptThread;
let stop: Stop | undefined;
const failures: unknown[] = [];

/** Kills the thread in the middle of its first prompts. */
const prompts = {
  prepare: () => thread.prepare(),
  render: async (input: Parameters<PromptThread["render"]>[0]) => {
    const rendered = thread.render(input);
    if (failures.length < KILLS) void thread.close();
    return rendered.catch((error: unknown) => {
      failures.push(error);
      throw error;
    });
  },
};

beforeAll(async () => {
  cluster = await TestCluster.open();
  thread = new PromptThread();
  const { store, bus } = cluster;
  stop = await start({
    ...{ store, bus, backgroundBus: bus, format: await openFormat(store), instance: "coordinator-1" },
    ...{ clock: systemClock, log: testLog, metrics: createMetrics(), disk: unguardedDisk },
    config: { agentTypes: ["qa"], policies: DEFAULT_POLICIES },
    prompts,
  });
}, 120_000);
afterAll(async () => {
  await stop?.();
  await thread?.close();
  await cluster?.close();
}, 120_000);

test("every handoff is offered", async () => {
  const tasks = Array.from({ length: HANDOFFS }, (_, n) => `task-${n}`);
  const ids = await Promise.all(tasks.map((task) => cluster.handOff(task, { to_agent_type: "qa" })));
  const offered = await Promise.all(ids.map((id) => cluster.until(id, "offered")));
  expect(offered.map(({ attempt }) => attempt)).toEqual(Array(HANDOFFS).fill(1));
  expect(failures.length).toBeGreaterThanOrEqual(KILLS);
  expect(failures).toEqual(
    failures.map(() => expect.objectContaining({ code: "UNAVAILABLE", details: { thread: "prompts" } })),
  );
}, 120_000);
