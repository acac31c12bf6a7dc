// Threads join and rest while agents write, with a real bus and a real store. The number of threads follows a script and not the load,
// which no test can produce on every machine.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { ServiceThread } from "../../../services/standalone/service-thread.ts";
import { startThreadPool } from "../../../services/standalone/thread-pool.ts";
import { readWriterConfig } from "../../../services/writer/config.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { connect } from "../../../shared/sdk/sdk.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";
import { input } from "../../harness/records/records.ts";

const root = await mkdtemp(join(tmpdir(), "fleet-threads-"));
const nats = await startNats();
afterAll(async () => {
  await nats.stop();
  await rm(root, { recursive: true, force: true });
});

const TASKS = ["t0", "t1", "t2", "t3"];
/** Between two calls: threads join and rest for seconds, in which agents without a pause would take all cores. */
const PAUSE_MS = 10;
const SIZES = [2, 3, 2, 1, 2, 3, 2, 1, 2, 1];

/** The threads' settings. */
const DATA = {
  options: {
    logLevel: "silent",
    opsHost: "127.0.0.1",
    opsPort: null,
    otlpEndpoint: undefined,
    stopTimeout: 10_000,
    auth: "off",
    service: "standalone",
    diskMinFree: undefined,
    mirrorDir: undefined,
    artifactsPlace: undefined,
    signingKeyFile: undefined,
    encryptionKeys: undefined,
    artifactsGrace: 172_800_000,
    artifactsBytes: 1_000_000,
    storeUrl: `lmdb:${join(root, "store")}?shared`,
    busUrl: nats.url,
    busMonitorUrls: nats.monitorUrl,
  },
  config: {
    ...readWriterConfig({
      agentTypes: [],
      policyFile: undefined,
      esignIssuers: undefined,
      finalizeDraftsAfter: null,
      retentionEvery: null,
    }),
    watchdog: {
      recoveriesMax: 256,
      missionSilence: 300_000,
      webhooks: [],
      anchors: { folder: null, bucket: null, timestamps: null, everyMs: 3_600_000 },
      scrubRate: 4_000_000,
      scrubEvery: null,
    },
  },
  pretty: false,
} as const;

test("threads join and rest under load: nothing is lost, tasks keep their order, and no counter falls", async () => {
  const sizes = SIZES.values();
  let wanted = 1;
  const done = Promise.withResolvers<void>();
  const seen: number[] = [];
  const threadCount = {
    sample(utilizations: readonly number[]) {
      seen.push(utilizations.length);
      const { value } = sizes.next();
      if (value === undefined && utilizations.length === wanted) done.resolve();
      wanted = value ?? wanted;
      return wanted;
    },
  };
  const threads = await startThreadPool({
    threadCount,
    data: DATA,
    log: testLog,
    clock: systemClock,
  });
  const client = await connect({ url: nats.url, agentId: "a", fallback: "none" });
  const created = async (): Promise<number> => {
    const all = (await threads.metrics()).flat().filter(({ name }) => name === "fleet_commands_total");
    return all.flatMap(({ values }) => values).reduce((sum, { value }) => sum + value, 0);
  };
  try {
    let isOver = false;
    const written = new Map<string, number>();
    const writing = TASKS.map(async (taskId) => {
      while (!isOver) {
        await client.createCheckpoint({ taskId, checkpoint: input(), deadlineMs: 20_000 });
        written.set(taskId, (written.get(taskId) ?? 0) + 1);
        await sleep(PAUSE_MS);
      }
    });
    let before = 0;
    const counting = (async () => {
      for (; !isOver; before = await created()) {
        expect(await created()).toBeGreaterThanOrEqual(before);
        await sleep(PAUSE_MS);
      }
    })();
    await done.promise;
    isOver = true;
    await Promise.all([...writing, counting]);
    expect(seen.slice(0, SIZES.length + 1)).toEqual([1, ...SIZES]);
    for (const [task, count] of written) {
      expect((await client.getTask(task))?.seq).toBe(count);
      expect(await client.verifyAudit(task)).toMatchObject({ ok: true });
    }
    expect(await threads.checks.store()).toMatchObject({ ok: true });
    expect(await threads.checks.bus()).toMatchObject({ ok: true });
  } finally {
    await client.close();
    await threads.stop();
  }
}, 120_000);

test("a thread that could not start, and has ended by itself, can be stopped", async () => {
  // No server has this port.
  const options = { ...DATA.options, busUrl: "nats://127.0.0.1:1" };
  const thread = new ServiceThread({ ...DATA, options, coordinates: false }, testLog);
  await expect(thread.ready).rejects.toMatchObject({ message: "the bus cannot be reached" });
  await thread.stop();
  // Its end is in the past now, as it may be before the first stop.
  await thread.stop();
});
