/** The job of the watchdogs that anchors the logs: with a real folder and a real time-stamp authority. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { AnchorSettings } from "../../../../services/watchdog/anchors/anchor-settings.ts";
import { startAnchorer } from "../../../../services/watchdog/anchors/anchorer.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics, type Metrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";
import { type ManualClock, manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { familyOf } from "../../../harness/records/edits.ts";
import { create } from "../../../harness/records/records.ts";
import { dump, restoreRows } from "../../../harness/records/rows.ts";
import { openSignedRecords, type SignedRecords } from "../../../harness/records/signed.ts";
import { appendAll } from "../../../shared/records/audit-log/logs.ts";
import { anchorsIn, linesOf } from "./anchors.ts";

const SOON = { timeout: 60_000, interval: 20 };

let authority: TimestampAuthority;
let records: SignedRecords;
let metrics: Metrics;
let stops: Stop[];
let folder: string;

beforeAll(async () => {
  authority = await TimestampAuthority.start();
});
afterAll(() => authority.close());
beforeEach(async () => {
  records = await openSignedRecords("lmdb");
  metrics = createMetrics();
  stops = [];
  folder = mkdtempSync(join(tmpdir(), "fleet-anchors-"));
  authority.status = null;
  authority.onReply = null;
  authority.requests.length = 0;
});
afterEach(async () => {
  await Promise.all(stops.map((stop) => stop()));
  await records.close();
  rmSync(folder, { recursive: true, force: true });
});

const inFolder = (): AnchorSettings => ({ folder, bucket: null, timestamps: null, everyMs: 3_600_000 });
const stamped = (everyMs = 3_600_000): AnchorSettings => ({
  folder: null,
  bucket: null,
  timestamps: { url: authority.url, authorities: [authority.ca] },
  everyMs,
});

function start(settings: AnchorSettings, { clock = systemClock, store = records.store } = {}): Stop {
  const leases = createLeaderLeases(store, `watchdog-${stops.length}`, () => clock.now());
  const stop = startAnchorer({ store, leases, clock, log: testLog, metrics }, settings);
  stops.push(stop);
  return stop;
}

async function stopped(stop: Stop, clock: ManualClock): Promise<void> {
  stops = stops.filter((one) => one !== stop);
  const stopping = stop();
  await clock.advance(10_000);
  await stopping;
}

async function write(count = 1, tenant = "default"): Promise<void> {
  for (let i = 0; i < count; i += 1) await create(records.repository, { tenant });
  await appendAll(records.store);
}

const stamps = () => anchorsIn(records.raw, "timestamp");
const metricOf = async (
  name: "auditAnchorAgeSeconds" | "auditAnchorsTotal",
  labels: Record<string, string>,
) =>
  (await metrics[name].get()).values.find((one) =>
    Object.entries(labels).every(([label, value]) => one.labels[label as never] === value),
  )?.value;

/** The loop and the measurement sleep. */
async function pass(clock: ManualClock, seconds: number, stepMs = 500): Promise<void> {
  for (let ms = 0; ms < seconds * 1_000; ms += stepMs) {
    await clock.sleeping(2);
    await clock.advance(stepMs);
  }
}

test("each tenant's newest checkpoint is in the folder, and the store keeps the newest record", async () => {
  const clock = manualClock(Date.now());
  await write(3);
  await write(1, "acme");
  const stop = start(inFolder(), { clock });
  await pass(clock, 15);
  await expect.poll(() => anchorsIn(records.raw, "folder", "acme"), SOON).toHaveLength(1);
  const { checkpoint } = await records.repository.auditLogs.state("default", {});
  expect(linesOf(folder)).toMatchObject([{ size: 4, checkpoint }]);
  expect(await anchorsIn(records.raw, "folder")).toMatchObject([{ size: 4, checkpoint }]);
  await write();
  await pass(clock, 25);
  expect(linesOf(folder).map(({ size }) => size)).toEqual([4, 5]);
  expect((await anchorsIn(records.raw, "folder")).map(({ size }) => size)).toEqual([5]);
  await stopped(stop, clock);
});

test("a checkpoint is time-stamped, and openssl verifies what is kept", async () => {
  await write(2);
  start(stamped());
  await expect.poll(async () => (await stamps()).length, SOON).toBe(1);
  const [anchor] = await stamps();
  expect(anchor).toMatchObject({ size: 3 });
  expect(authority.verifies(anchor!.token!, anchor!.checkpoint)).toBe(true);
  expect(authority.timeIn(anchor!.token!).toISOString()).toBe(anchor!.at);
  const { anchors, more } = await records.repository.auditLogs.anchors("default", { limit: 10 });
  expect(more).toBe(false);
  expect(anchors).toMatchObject([{ target: "timestamp", size: 3, object: null, retained_until: null }]);
  expect(Buffer.from(anchors[0]!.token!, "base64")).toEqual(Buffer.from(anchor!.token!));
});

test("a log is stamped at most once in its interval, and an idle one never again", async () => {
  const clock = manualClock(Date.now());
  await write(1);
  const stop = start(stamped(120_000), { clock });
  await pass(clock, 20);
  await expect.poll(async () => (await stamps()).length, SOON).toBe(1);
  await write(1);
  await pass(clock, 60);
  expect(authority.requests).toHaveLength(1);
  expect(await metricOf("auditAnchorAgeSeconds", { target: "timestamp" })).toBeGreaterThan(30);
  await pass(clock, 80);
  await expect.poll(async () => (await stamps()).map(({ size }) => size), SOON).toEqual([3, 2]);
  await pass(clock, 300);
  expect(authority.requests).toHaveLength(2);
  expect(await metricOf("auditAnchorAgeSeconds", { target: "timestamp" })).toBe(0);
  await stopped(stop, clock);
});

test("an idle fleet is looked at with one read in ten seconds", async () => {
  const clock = manualClock(Date.now());
  await write(1);
  const labels: string[] = [];
  const store: Store = Object.assign(Object.create(records.store) as Store, {
    read: ((options, body) => {
      labels.push(options.label);
      return records.store.read(options, body);
    }) satisfies Store["read"],
    transact: ((options, body) => records.store.transact(options, body)) satisfies Store["transact"],
  });
  const stop = start(inFolder(), { clock, store });
  await pass(clock, 40);
  await expect.poll(() => anchorsIn(records.raw, "folder"), SOON).toHaveLength(1);
  await pass(clock, 20);
  labels.length = 0;
  await pass(clock, 60);
  expect(new Set(labels)).toEqual(new Set(["anchor_steps"]));
  expect(labels.length).toBeLessThanOrEqual(6);
  await stopped(stop, clock);
});

test("an authority that fails is asked again, and none of its wrong answers is kept", async () => {
  const clock = manualClock(Date.now());
  await write(1);
  authority.status = 503;
  const stop = start(stamped(), { clock });
  await pass(clock, 30);
  authority.status = null;
  // The last byte of the signature, changed to another value: a constant would leave one answer in 256 as it is.
  authority.onReply = (reply) => Buffer.concat([reply.subarray(0, -1), Buffer.from([reply.at(-1)! ^ 1])]);
  await pass(clock, 120);
  const failed = await metricOf("auditAnchorsTotal", { target: "timestamp", outcome: "failed" });
  expect(failed).toBeGreaterThan(2);
  expect(await stamps()).toEqual([]);
  expect(await metricOf("auditAnchorAgeSeconds", { target: "timestamp" })).toBeGreaterThan(60);
  authority.onReply = null;
  await pass(clock, 120);
  await expect.poll(async () => (await stamps()).length, SOON).toBe(1);
  expect(await metricOf("auditAnchorAgeSeconds", { target: "timestamp" })).toBe(0);
  await stopped(stop, clock);
});

test("a log that was never anchored waits since it began, also for a watchdog that starts again", async () => {
  await write(1);
  authority.status = 503;
  for (const hours of [3, 6]) {
    await write(1);
    const clock = manualClock(Date.now() + hours * 3_600_000);
    const stop = start(stamped(), { clock });
    await pass(clock, 15);
    const age = await metricOf("auditAnchorAgeSeconds", { target: "timestamp" });
    expect(age).toBeGreaterThan(hours * 3_600 - 60);
    await stopped(stop, clock);
  }
});

test("the response to an earlier request, and that of another authority, are refused", async () => {
  await write(1);
  let first: Buffer | undefined;
  authority.onReply = (reply) => {
    first ??= reply;
    return first;
  };
  const other = await TimestampAuthority.start();
  const failed = () => metricOf("auditAnchorsTotal", { target: "timestamp", outcome: "failed" });
  try {
    const wrong = start({
      ...stamped(),
      timestamps: { url: authority.url, authorities: [other.ca] },
    });
    await expect.poll(failed, SOON).toBe(1);
    await wrong();
    start(stamped());
    await expect.poll(failed, SOON).toBe(2);
    expect(authority.requests).toHaveLength(2);
    expect(await stamps()).toEqual([]);
  } finally {
    await other.close();
  }
});

test("tenants whose file cannot be written keep no other one from its turn", async () => {
  const clock = manualClock(Date.now());
  const blocked = ["b1", "b2", "b3", "b4"];
  for (const tenant of [...blocked, "z9"]) await write(1, tenant);
  // A folder in place of the file.
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "");
  const stop = start(inFolder(), { clock });
  await pass(clock, 15);
  rmSync(folder);
  for (const tenant of blocked) mkdirSync(join(folder, `${tenant}.jsonl`), { recursive: true });
  await pass(clock, 300, 1_000);
  expect(linesOf(folder, "z9")).toHaveLength(1);
  expect(await anchorsIn(records.raw, "folder", "b4")).toEqual([]);
  await stopped(stop, clock);
});

test("two watchdogs anchor as one, and one continues after the other", async () => {
  await write(1);
  const first = start(stamped(1_000));
  start(stamped(1_000));
  await expect.poll(async () => (await stamps()).length, SOON).toBe(1);
  expect(authority.requests).toHaveLength(1);
  await first();
  stops.shift();
  await write(1);
  await expect.poll(async () => (await stamps()).length, SOON).toBe(2);
});

test("a log that was cut off is reported, and the anchors of the longer log are kept", async () => {
  const clock = manualClock(Date.now());
  await write(1);
  const copy = await dump(records.raw);
  await write(3);
  const stop = start(stamped(1_000), { clock });
  await pass(clock, 15);
  const [longer] = await stamps();
  expect(longer).toMatchObject({ size: 5 });
  // All is put back but the records of anchors.
  const kept = (await dump(records.raw)).filter((row) => familyOf(row) === "log_anchors");
  await restoreRows(records.raw, [...copy, ...kept]);
  await pass(clock, 30);
  expect((await stamps()).map(({ size }) => size)).toEqual([5, 2]);
  expect((await stamps())[0]).toEqual(longer);
  expect((await metrics.auditLogsCut.get()).values).toMatchObject([{ value: 1 }]);
  await stopped(stop, clock);
});

test("an authority whose clock is ahead is not asked more often", async () => {
  // Two minutes behind that of the authority.
  const clock = manualClock(Date.now() - 120_000);
  await write(1);
  const stop = start(stamped(60_000), { clock });
  await pass(clock, 15);
  await write(1);
  await pass(clock, 30);
  expect(authority.requests).toHaveLength(1);
  await pass(clock, 30);
  await expect.poll(async () => (await stamps()).length, SOON).toBe(2);
  expect(authority.requests).toHaveLength(2);
  await stopped(stop, clock);
});
