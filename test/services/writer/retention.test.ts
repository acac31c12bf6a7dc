/** The writer's sweep of retention: by its clock, and in processes that are killed between its transactions. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startRetention } from "../../../services/writer/sweeps/retention.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import { type ManualClock, manualClock } from "../../harness/clock.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";
import { environmentOf, startService, type TestService } from "../../harness/processes/services.ts";
import { create, openTestRecords, type TestRecords } from "../../harness/records/records.ts";
import { scrub } from "../../harness/records/scrub.ts";

const DAY_MS = 86_400_000;
const PROGRAM = "test/harness/processes/writer.program.ts";

/** A UUIDv7 with this time. */
function idAt(ms: number): string {
  const time = ms.toString(16).padStart(12, "0");
  const random = randomBytes(9).toString("hex");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6)}`;
}

async function removedIn(repository: CheckpointRepository, task = "task-1"): Promise<number[]> {
  const page = await repository.history("default", { task_id: task, limit: 1_000, order: "oldest" });
  return (page.removed ?? []).map(({ seq }) => seq);
}

describe("by the clock of the writer", { timeout: 120_000 }, () => {
  async function withSweep(
    retentionEvery: number | null,
    run: (setup: {
      readonly records: TestRecords;
      readonly clock: ManualClock;
      /** Advances the clock while neither instance works, so that no lease ends before its work does. */
      readonly pass: (ms: number) => Promise<void>;
      readonly logged: readonly { readonly level: string; readonly msg: string; readonly removed?: number }[];
    }) => Promise<void>,
  ): Promise<void> {
    const clock = manualClock(Date.now());
    const records = await openTestRecords("lmdb", () => clock.now());
    const metrics = createMetrics({ ofProcess: false });
    const { store, format } = records;
    for (let n = 0; n < 5; n += 1) await create(records.repository);
    await clock.advance(8 * DAY_MS);
    const logged: { level: string; msg: string; removed?: number }[] = [];
    const destination = { write: (line: string) => void logged.push(JSON.parse(line)) };
    const log = createLogger({ service: "writer", pretty: false, destination });
    const parts = { store, format, clock, log, metrics };
    const config = { retentionEvery, policies: DEFAULT_POLICIES };
    const started = ["writer-1", "writer-2"].map((instance) => {
      const leases = createLeaderLeases(store, instance, () => clock.now());
      return startRetention({ ...parts, leases, config });
    });
    const pass = async (ms: number) => {
      await clock.sleeping(started.length);
      await clock.advance(ms);
    };
    try {
      await run({ records, clock, pass, logged });
    } finally {
      await Promise.all(started.map((stop) => stop()));
      await records.close();
    }
  }

  test("US-308 a cleanup is logged with what it removed", async () => {
    await withSweep(DAY_MS, async ({ pass, logged }) => {
      const removals = async () => {
        await pass(2_000);
        return logged.filter(({ msg }) => msg === "checkpoints removed");
      };
      await expect.poll(removals, { timeout: 60_000 }).toMatchObject([{ level: "info", removed: 2 }]);
    });
  });

  test("US-308 old checkpoints go at the start, and daily thereafter", async () => {
    await withSweep(DAY_MS, async ({ records: { repository }, pass }) => {
      const soon = () =>
        expect.poll(
          async () => {
            await pass(2_000);
            return removedIn(repository);
          },
          { timeout: 60_000 },
        );
      await soon().toEqual([1, 2]);
      await create(repository);
      await create(repository);
      await pass(DAY_MS);
      await soon().toEqual([1, 2, 3, 4]);
    });
  });

  test("nothing goes by itself when that is off", async () => {
    await withSweep(null, async ({ records: { repository }, clock }) => {
      await clock.advance(100 * DAY_MS);
      expect(await removedIn(repository)).toEqual([]);
    });
  });
});

async function withStore<T>(
  url: string,
  work: (parts: { store: Store; repository: CheckpointRepository }) => Promise<T>,
  now: () => number = Date.now,
): Promise<T> {
  const store = await openStore(url);
  try {
    const format = await openFormat(store);
    return await work({
      store,
      repository: new CheckpointRepository({ store, format, finder: "test", now }),
    });
  } finally {
    await store.close({ drainMs: 5_000 });
  }
}

describe("a writer that is killed", { timeout: 120_000 }, () => {
  test.each(["before:remove_checkpoints", "after:remove_checkpoints", "before:pass_retention"])(
    "%s leaves the rest to the next one, and each checkpoint is removed once",
    async (moment) => {
      const folder = mkdtempSync(join(tmpdir(), "fleet-retention-"));
      const storeUrl = `lmdb:${folder}/store`;
      const nats = await startNats();
      const bus = await connectBus({ url: nats.url, name: "test", identity: "agent-1", log: testLog });
      const writers: TestService[] = [];
      const writer = async (env: Record<string, string> = {}): Promise<TestService> => {
        const settings = {
          ...environmentOf({ busUrl: nats.url, storeUrl }),
          // A look every second, and drafts that stay as old as they are.
          ...{ FLEET_RETENTION_EVERY: "4s", FLEET_FINALIZE_DRAFTS_AFTER: "off" },
        };
        const service = await startService("writer", { ...settings, ...env }, { program: PROGRAM });
        writers.push(service);
        return service;
      };
      try {
        await bus.reconcileStreams(fleetStreams({ storageBytes: 200 * 1024 * 1024 }));
        const past = Date.now() - 10 * DAY_MS;
        await withStore(
          storeUrl,
          async ({ repository }) => {
            for (let n = 0; n < 40; n += 1) await create(repository, { commandId: idAt(past) });
          },
          () => past,
        );
        const killed = await writer({ FLEET_TEST_KILL_AT: moment });
        expect(await killed.ended).toBe("SIGKILL");
        const next = await writer();
        await expect
          .poll(() => next.output(), { timeout: 60_000 })
          .toContain("retention has passed over all tasks");
        await next.terminate();
        await withStore(storeUrl, async ({ store, repository }) => {
          const all = Array.from({ length: 37 }, (_, n) => n + 1);
          expect(await removedIn(repository)).toEqual(all);
          const { entries } = await repository.audit("default", {
            task_id: "task-1",
            from_seq: 1,
            limit: 500,
          });
          expect(entries.filter(({ entry }) => JSON.parse(entry).op === "remove")).toHaveLength(37);
          expect((await scrub({ store, repository })).findings).toEqual([]);
        });
      } finally {
        await Promise.all(writers.map((one) => one.kill9()));
        await bus.close();
        await nats.stop();
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );
});
