/**
 * The scrubber of the watchdogs: never faster than its rate, one instance at a time, continued by another one
 * after a kill, one alert for each finding.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startScrubber } from "../../../../services/watchdog/scrub/scrubber.ts";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../../shared/bus/streams/streams.ts";
import { type Alert, alertIdSchema } from "../../../../shared/protocol/alerts.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { EndedScrubPass, ScrubStatus } from "../../../../shared/protocol/scrub.ts";
import { STREAMS, SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { readOutbox } from "../../../../shared/records/outbox/outbox.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import type { ScrubSettings } from "../../../../shared/records/scrub/state.ts";
import { type Clock, systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics, type Metrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Reader, Store } from "../../../../shared/store/store.ts";
import { manualClock } from "../../../harness/clock.ts";
import { startNats, type TestNats, testLog } from "../../../harness/processes/nats.ts";
import { environmentOf, startService, type TestService } from "../../../harness/processes/services.ts";
import {
  create,
  input,
  OPERATOR,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { findingsOf } from "../../../harness/records/scrub.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";

const DAY_MS = 86_400_000;
const keys = tenantKeys("default");
const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

let nats: TestNats;
let bus: Bus;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 200 * 1024 * 1024 }));
});
afterAll(async () => {
  await bus.close();
  await nats.stop();
});

/** Counts the bytes that the scrub reads through `store`. */
function counting(store: Store): { store: Store; bytes: () => number } {
  let bytes = 0;
  const counted = (reader: Reader): Reader => ({
    get: async (key) => {
      const value = await reader.get(key);
      bytes += value?.length ?? 0;
      return value;
    },
    getMany: async (wanted) => {
      const values = await reader.getMany(wanted);
      for (const value of values) bytes += value?.length ?? 0;
      return values;
    },
    getRange: async (range, limits) => {
      const page = await reader.getRange(range, limits);
      for (const { value } of page.rows) bytes += value.length;
      return page;
    },
  });
  const read: Store["read"] = (reading, body) =>
    store.read(reading, (reader) => body(reading.label === "scrub" ? counted(reader) : reader));
  const whole = wrappedStore(store, (how, body) => store.transact(how, body));
  return { store: { ...whole, read }, bytes: () => bytes };
}

describe("in one process", () => {
  let bench: TestRecords;
  let metrics: Metrics;
  let stops: Stop[];

  beforeEach(async () => {
    bench = await openTestRecords("memory");
    metrics = createMetrics();
    stops = [];
  });
  afterEach(async () => {
    await Promise.all(stops.map((stop) => stop()));
    await bench.close();
  });

  function start(settings: ScrubSettings, { clock = systemClock as Clock, store = bench.store } = {}): Stop {
    const stop = startScrubber(
      {
        store,
        backgroundBus: bus,
        format: bench.format,
        leases: createLeaderLeases(store, `watchdog-${stops.length}`, () => clock.now()),
        clock,
        log: testLog,
        metrics,
      },
      settings,
    );
    stops.push(stop);
    return async () => {
      stops = stops.filter((one) => one !== stop);
      await stop();
    };
  }

  const status = (): Promise<ScrubStatus> => bench.repository.scrubStatus();
  const ended = async (pass: number): Promise<EndedScrubPass> => {
    await expect.poll(async () => (await status()).last?.pass, { timeout: 20_000 }).toBe(pass);
    return (await status()).last!;
  };

  async function flip(key: Uint8Array): Promise<void> {
    await bench.store.transact(options, async (tx) => {
      const value = Uint8Array.from((await tx.get(key))!);
      value[value.length >> 1]! ^= 1;
      tx.set(key, value);
    });
  }

  async function alerts(task: string): Promise<Alert[]> {
    const { messages } = await bus.stream(STREAMS.alerts).state();
    const heads = await bus.stream(STREAMS.alerts).list(1, Math.max(1, messages));
    const mine = heads.filter(({ subject }) => subject.endsWith(`.${task}`));
    const whole = await Promise.all(mine.map(({ seq }) => bus.stream(STREAMS.alerts).get(seq)));
    return whole.map((one) => JSON.parse(Buffer.from(one!.body).toString()) as Alert);
  }

  test("reads no more in any interval than its rate allows", async () => {
    const large = { checkpoint: input({ goal: "a large body ".repeat(2_000) }) };
    for (let n = 0; n < 60; n += 1) await create(bench.repository, n % 10 === 0 ? large : {});
    const clock = manualClock();
    const { store, bytes } = counting(bench.store);
    const rateBytes = 150_000;
    await bench.repository.startScrub(OPERATOR);
    const stop = start({ rateBytes, everyMs: null }, { clock, store });
    const began = clock.monotonic();
    let most = 0;
    while ((await status()).last === null) {
      // Nothing is read while the worker sleeps.
      await clock.sleeping(1);
      const elapsed = clock.monotonic() - began;
      // One step is read before its rest, and may exceed its share by a slice of rows.
      most = Math.max(most, bytes() - (rateBytes * elapsed) / 1_000);
      await clock.advance(50);
      await turn();
    }
    expect(most).toBeLessThan(rateBytes);
    expect(bytes()).toBeGreaterThan(2 * rateBytes);
    expect(clock.monotonic() - began).toBeGreaterThan((bytes() / rateBytes) * 1_000 - 1_000);
    const stopping = stop();
    await clock.advance(10_000);
    await stopping;
  });

  test("counts a minimum of bytes for each of many small tasks", async () => {
    for (let n = 0; n < 100; n += 1) await send(bench.repository, "take", {}, { task: `task-${n}` });
    const clock = manualClock();
    await bench.repository.startScrub(OPERATOR);
    const stop = start({ rateBytes: 100_000, everyMs: null }, { clock });
    while ((await status()).last === null) {
      await clock.sleeping(1);
      await clock.advance(20);
      await turn();
    }
    const { bytes } = (await status()).last!;
    expect(bytes).toBeLessThan(600_000);
    // A hundred tasks count as a million bytes; the last step's rest comes after its end.
    expect(clock.monotonic()).toBeGreaterThan(5_000);
    const stopping = stop();
    await clock.advance(10_000);
    await stopping;
  });

  test("begins by itself, again after the interval, and on request", async () => {
    await create(bench.repository);
    const stop = start({ rateBytes: 4_000_000, everyMs: 1_000 });
    const first = await ended(1);
    const second = await ended(2);
    expect(Date.parse(second.began_at) - Date.parse(first.began_at)).toBeGreaterThanOrEqual(1_000);
    await stop();
    start({ rateBytes: 4_000_000, everyMs: DAY_MS });
    const { requested_pass } = await bench.repository.startScrub(OPERATOR);
    await ended(requested_pass!);
    expect(await status()).toMatchObject({ rate_bytes: 4_000_000, every_ms: DAY_MS, by: "watchdog-0" });
  });

  test("alerts once for each finding, in any number of passes, and not for a quarantined version", async () => {
    const by = { task: "alerted" };
    const { checkpoint_id: id } = await create(bench.repository, by);
    await send(bench.repository, "update", { checkpoint_id: id, patch: { a: 1 } }, by);
    const { checkpoint_id: other } = await create(bench.repository, by);
    await flip(keys.version("alerted", id, 1));
    await flip(keys.id(id));
    await flip(keys.checkpoint("alerted", other));
    start({ rateBytes: 4_000_000, everyMs: 1_000 });
    await ended(3);
    const published = await alerts("alerted");
    expect(published.map(({ severity, data }) => [severity, (data as { kind: string }).kind]).sort()).toEqual(
      [
        ["critical", "place"],
        ["warning", "version"],
      ],
    );
    for (const one of published) expect(alertIdSchema.safeParse(one.id).success).toBe(true);
    const counted = (await metrics.scrubFindingsTotal.get()).values;
    expect(counted.map(({ labels, value }) => [labels.kind, value]).sort()).toEqual([
      ["checkpoint", 1],
      ["place", 1],
      ["version", 1],
    ]);
    expect((await metrics.checkpointCorruptTotal.get()).values[0]?.value).toBe(1);
    expect(await metrics.registry.metrics()).toMatch(/^fleet_scrub_age_seconds(\{.*\})? \d/m);
    expect((await metrics.scrubBytesTotal.get()).values[0]?.value).toBeGreaterThan(1_000);
  });

  test("two instances scrub as one", async () => {
    for (let n = 0; n < 50; n += 1) await create(bench.repository, { task: `task-${n % 5}` });
    await bench.repository.startScrub(OPERATOR);
    for (let n = 0; n < 2; n += 1) start({ rateBytes: 200_000, everyMs: null });
    expect(await ended(1)).toMatchObject({ tasks: 5, checkpoints: 50, audit_entries: 50, findings: 0 });
    expect((await metrics.scrubCheckpointsTotal.get()).values[0]?.value).toBe(50);
  });
});

test("compares the event stream with the store, and alerts", async () => {
  const own = await startNats();
  const ownBus = await connectBus({ url: own.url, name: "test", identity: "test", log: testLog });
  const bench = await openTestRecords("memory");
  await ownBus.reconcileStreams(fleetStreams({ storageBytes: 200 * 1024 * 1024 }));
  const stop = startScrubber(
    {
      store: bench.store,
      backgroundBus: ownBus,
      format: bench.format,
      leases: createLeaderLeases(bench.store, "watchdog-0", Date.now),
      clock: systemClock,
      log: testLog,
      metrics: createMetrics(),
    },
    { rateBytes: 400_000, everyMs: null },
  );
  const findings = async () => {
    const { requested_pass } = await bench.repository.startScrub(OPERATOR);
    await expect
      .poll(async () => (await bench.repository.scrubStatus()).last?.pass, { timeout: 20_000 })
      .toBe(requested_pass);
    return findingsOf(bench.repository);
  };
  try {
    for (let n = 0; n < 250; n += 1) await create(bench.repository, { task: `task-${n % 5}` });
    const waiting = await bench.store.read(options, (reader) =>
      Promise.all(
        Array.from({ length: LIMITS.outbox_partition_count }, (_, n) => readOutbox(reader, n, 1_000)),
      ),
    );
    const events = waiting.flatMap(({ entries }) => entries);
    const published = events.map(({ event: { type, subject, id }, json }) => ({
      subject: SUBJECTS.event("default", type, subject),
      body: Buffer.from(json),
      messageId: id,
      orderKey: subject,
    }));
    await ownBus.publishOrdered(published, { timeoutMs: 10_000 });
    expect(await findings()).toEqual([]);
    await bench.store.transact(options, async (tx) => {
      for (const { key } of events) tx.clear(key);
      tx.clear(keys.audit("task-3", 50));
    });
    const found = (await findings()).filter(({ kind }) => kind === "event");
    expect(found).toMatchObject([{ task_id: "task-3" }]);
    await expect
      .poll(() => ownBus.stream(STREAMS.alerts).count("fleet.alert.default.critical.task-3"))
      .not.toBe(0);
  } finally {
    await stop();
    await ownBus.close();
    await bench.close();
    await own.stop();
  }
}, 60_000);

test("a watchdog finishes the pass of a killed one and reads nothing twice", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-scrub-"));
  const storeUrl = `lmdb:${join(folder, "store")}?shared`;
  const store = await openStore(storeUrl);
  const format = await openFormat(store);
  const repository = new CheckpointRepository({ store, format, finder: "test", now: Date.now });
  const services: TestService[] = [];
  const env = {
    ...environmentOf({ busUrl: nats.url, storeUrl }),
    FLEET_SCRUB_RATE: "60000",
    FLEET_SCRUB_EVERY: "off",
  };
  try {
    for (let n = 0; n < 60; n += 1) await create(repository, { task: `task-${n % 3}` });
    await store.transact(options, async (tx) => tx.clear(keys.order("task-2", 20)));
    await repository.startScrub(OPERATOR);
    services.push(await startService("watchdog", env));
    const done = async () => (await repository.scrubStatus()).current?.checkpoints ?? 0;
    await expect.poll(done, { timeout: 20_000 }).toBeGreaterThan(10);
    const { by } = await repository.scrubStatus();
    await services[0]!.kill9();
    const left = await repository.scrubStatus();
    expect(left).toMatchObject({ last: null, current: { pass: 1 } });
    services.push(await startService("watchdog", env));
    await expect.poll(async () => (await repository.scrubStatus()).last, { timeout: 40_000 }).not.toBeNull();
    const { last, by: next } = await repository.scrubStatus();
    expect(next).not.toBe(by);
    expect(last).toMatchObject({
      pass: 1,
      began_at: left.current!.began_at,
      tasks: 3,
      checkpoints: 59,
      findings: 1,
    });
  } finally {
    await Promise.all(services.map((service) => service.kill9()));
    await store.close({ drainMs: 1_000 });
    rmSync(folder, { recursive: true, force: true });
  }
}, 90_000);
