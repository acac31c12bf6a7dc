/** The writer's sweep of superseded drafts: by its clock, and in processes that are killed between its steps. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { describe, expect, test } from "vitest";
import { startDraftFinalizer } from "../../../services/writer/sweeps/draft-finalizer.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../shared/store/open.ts";
import { manualClock } from "../../harness/clock.ts";
import { creation } from "../../harness/in-process-fleet.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";
import { environmentOf, startService, type TestService } from "../../harness/processes/services.ts";
import { create, openTestRecords, type TestRecords } from "../../harness/records/records.ts";

const AFTER_MS = 900_000;
const PROGRAM = "test/harness/processes/writer.program.ts";

describe("by the clock of the writer", () => {
  async function withSweep(
    finalizeDraftsAfter: number | null,
    run: (setup: {
      readonly records: TestRecords;
      readonly pass: (ms: number) => Promise<void>;
      readonly finalized: () => Promise<number>;
    }) => Promise<void>,
  ): Promise<void> {
    const clock = manualClock(Date.now());
    const records = await openTestRecords("lmdb", () => clock.now());
    const metrics = createMetrics({ ofProcess: false });
    const { store, format } = records;
    const parts = { store, format, clock, log: testLog, metrics };
    const config = { finalizeDraftsAfter, policies: DEFAULT_POLICIES };
    const started = ["writer-1", "writer-2"].map((instance) => {
      const leases = createLeaderLeases(store, instance, () => clock.now());
      return startDraftFinalizer({ ...parts, leases, config });
    });
    const finalized = async () => (await metrics.draftsFinalizedTotal.get()).values[0]?.value ?? 0;
    try {
      await run({ records, pass: (ms) => clock.advance(ms), finalized });
    } finally {
      await Promise.all(started.map((stop) => stop()));
      await records.close();
    }
  }

  test("a draft is finalized and counted once its time has passed", async () => {
    await withSweep(AFTER_MS, async ({ records: { repository }, pass, finalized }) => {
      const drafts: string[] = [];
      for (let n = 0; n < 3; n += 1) drafts.push((await create(repository)).checkpoint_id);
      const statuses = () =>
        Promise.all(drafts.map(async (id) => (await repository.get("default", id)).metadata.final_status));
      await pass(AFTER_MS - 60_000);
      expect(await statuses()).toEqual([undefined, undefined, undefined]);
      await expect
        .poll(async () => {
          await pass(30_000);
          return finalized();
        })
        .toBe(2);
      await pass(AFTER_MS);
      expect(await statuses()).toEqual(["superseded", "superseded", undefined]);
      expect(await finalized()).toBe(2);
    });
  });

  test("no draft is finalized when that is off", async () => {
    await withSweep(null, async ({ records: { repository }, pass }) => {
      const { checkpoint_id: id } = await create(repository);
      await create(repository);
      await pass(10 * AFTER_MS);
      expect((await repository.get("default", id)).metadata.status).toBe("draft");
    });
  });
});

describe.concurrent("a writer that is killed", () => {
  test.for(["before:finalize_draft", "after:finalize_draft", "before:pass_drafts"])(
    "%s leaves the rest to the next one, and each draft is finalized once",
    // Its own `expect`: that of the file loses a poll when another of these tests ends.
    async (moment, { expect }) => {
      const folder = mkdtempSync(join(tmpdir(), "fleet-drafts-"));
      const nats = await startNats();
      const bus = await connectBus({ url: nats.url, name: "test", identity: "agent-1", log: testLog });
      const writers: TestService[] = [];
      const storeUrl = `lmdb:${folder}/store`;
      const writer = async (env: Record<string, string> = {}): Promise<TestService> => {
        const settings = {
          ...environmentOf({ busUrl: nats.url, storeUrl }),
          FLEET_FINALIZE_DRAFTS_AFTER: "1s",
        };
        const service = await startService("writer", { ...settings, ...env }, { program: PROGRAM });
        writers.push(service);
        return service;
      };
      try {
        await bus.reconcileStreams(fleetStreams({ storageBytes: 200 * 1024 * 1024 }));
        const finalized = await followFinalizations(bus);
        // All three exist before the first sweep: on a busy machine the writer would be killed between two of them.
        const first = await writer({ FLEET_FINALIZE_DRAFTS_AFTER: "off" });
        const ids = [await created(bus), await created(bus), await created(bus)];
        await first.terminate();
        const killed = await writer({ FLEET_TEST_KILL_AT: moment });
        expect(await killed.ended).toBe("SIGKILL");
        const next = await writer();
        const superseded = ids.slice(0, 2).map((id) => ({ checkpointId: id, status: "superseded" }));
        await expect.poll(finalized, { timeout: 20_000 }).toEqual(superseded);
        const update = {
          command_id: uuidv7(),
          checkpoint_id: ids[0],
          patch: { execution_state: { goal: "late" } },
        };
        expect(await asked(bus, "update", update)).toMatchObject({
          error: { code: "FINALIZED", retryable: false },
        });
        // The sweep passes everything before this checkpoint's predecessor again.
        await created(bus);
        await expect.poll(finalized, { timeout: 20_000 }).toHaveLength(3);
        await next.terminate();
        expect(next.output()).toContain("superseded drafts finalized");
        expect(await finalizedIn(storeUrl)).toEqual(ids);
      } finally {
        await Promise.all(writers.map((one) => one.kill9()));
        await bus.close();
        await nats.stop();
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );
});

async function asked(bus: Bus, op: "create" | "update", body: object): Promise<Record<string, unknown>> {
  const subject = SUBJECTS.command("default", "agent-1", "task-1", op);
  const answer = await bus.request(
    subject,
    { body: Buffer.from(JSON.stringify(body)) },
    { timeoutMs: 5_000 },
  );
  return JSON.parse(Buffer.from(answer.body).toString()) as Record<string, unknown>;
}

async function created(bus: Bus): Promise<string> {
  return (await asked(bus, "create", creation())).checkpoint_id as string;
}

/** The data of the published finalizations, each event once. */
async function followFinalizations(bus: Bus): Promise<() => unknown[]> {
  const seen = new Map<string, unknown>();
  await bus.follow({ stream: STREAMS.events, filter: SUBJECTS.everyEvent, from: "all" }, (message) => {
    const event = JSON.parse(Buffer.from(message.body).toString()) as FleetEvent;
    if (event.type === "CHECKPOINT_FINALIZED") seen.set(event.id, event.data);
  });
  return () => [...seen.values()];
}

/** The checkpoints with an audit entry of their finalization, read while no writer has the store. */
async function finalizedIn(storeUrl: string): Promise<unknown[]> {
  const store = await openStore(storeUrl);
  try {
    const repository = new CheckpointRepository({
      store,
      format: await openFormat(store),
      finder: "test",
      now: Date.now,
    });
    const query = { task_id: "task-1", from_seq: 1, limit: 500 };
    const { entries } = await repository.audit("default", query);
    const facts = entries.map(({ entry }) => JSON.parse(entry) as Record<string, unknown>);
    return facts.filter(({ op }) => op === "finalize").map(({ checkpoint_id }) => checkpoint_id);
  } finally {
    await store.close({ drainMs: 2_000 });
  }
}
