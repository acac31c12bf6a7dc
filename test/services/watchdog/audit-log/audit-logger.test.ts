/** The job of the watchdogs: appends what agents write, measures its delay, and reads little when nothing happens. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { startAuditLogger } from "../../../../services/watchdog/audit-log/audit-logger.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { acquireLease } from "../../../../shared/records/leader/lease.ts";
import { type Clock, systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics, type Metrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { type ManualClock, manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create } from "../../../harness/records/records.ts";
import { openSignedRecords, type SignedRecords, WRITING } from "../../../harness/records/signed.ts";
import { logOf } from "../../../shared/records/audit-log/logs.ts";

let records: SignedRecords;
let metrics: Metrics;
let stops: Stop[];

beforeEach(async () => {
  records = await openSignedRecords("lmdb");
  metrics = createMetrics();
  stops = [];
});
afterEach(async () => {
  await Promise.all(stops.map((stop) => stop()));
  await records.close();
});

function start({ clock = systemClock as Clock, store = records.store, log = testLog } = {}): Stop {
  const leases = createLeaderLeases(store, `watchdog-${stops.length}`, () => clock.now());
  const stop = startAuditLogger({ store, leases, clock, log, metrics });
  stops.push(stop);
  return stop;
}

const log = () => logOf(records.raw, "default", records.key.publicKey);
const sizeIs = (size: number) => expect.poll(async () => (await log()).size, { timeout: 30_000 }).toBe(size);
type Name = "auditLogSize" | "auditLogDelaySeconds" | "auditLogAppendedTotal" | "auditLogsDamaged";
async function metric(name: Name) {
  await metrics.registry.metrics(); // Measures.
  return (await metrics[name].get()).values[0]?.value;
}

async function pass(clock: ManualClock, seconds: number, stepMs = 100): Promise<void> {
  for (let ms = 0; ms < seconds * 1_000; ms += stepMs) {
    await clock.sleeping(1);
    await clock.advance(stepMs);
  }
}

/** A log that keeps its lines. */
function keptLog() {
  const lines: { level: string; text: string }[] = [];
  const keep = (level: string) => (first: unknown, text?: string) =>
    lines.push({ level, text: text ?? String(first) });
  const kept = { debug: keep("debug"), info: keep("info"), warn: keep("warn"), error: keep("error") };
  return { lines, log: { ...testLog, ...kept } as unknown as typeof testLog };
}

test("two watchdogs append as one, and one continues after the other", async () => {
  for (let i = 0; i < 20; i += 1) await create(records.repository, { task: `task-${i % 3}` });
  const first = start();
  start();
  // With the registration of the key.
  await sizeIs(21);
  await first();
  await create(records.repository);
  await sizeIs(22);
  expect((await log()).signed?.checkpoint.size).toBe(22);
  await expect.poll(() => metric("auditLogSize"), { timeout: 30_000 }).toBe(22);
  expect(await metric("auditLogDelaySeconds")).toBe(0);
  expect(await metric("auditLogAppendedTotal")).toBe(22);
});

test("an idle log is read once in two seconds, and nothing is written", async () => {
  const clock = manualClock();
  let [reads, writes] = [0, 0];
  const store: Store = Object.assign(Object.create(records.store) as Store, {
    read: ((options, body) => {
      if (options.label === "plan_log") reads += 1;
      return records.store.read(options, body);
    }) satisfies Store["read"],
    transact: ((options, body) => {
      if (options.label === "write_log" || options.label === "mark_log") writes += 1;
      return records.store.transact(options, body);
    }) satisfies Store["transact"],
  });
  const stop = start({ clock, store });
  await pass(clock, 10);
  expect((await log()).size).toBe(1);
  [reads, writes] = [0, 0];
  await pass(clock, 60);
  expect(writes).toBe(0);
  expect(reads).toBeGreaterThan(20);
  expect(reads).toBeLessThanOrEqual(31);
  stops = [];
  const stopping = stop();
  await clock.advance(10_000);
  await stopping;
});

test("acts that an older service records beside this one get into the log within ten minutes", async () => {
  const clock = manualClock();
  const stop = start({ clock });
  await pass(clock, 10);
  await records.repository.startScrub({ tenant: "acme", caller: "human=olga" });
  // An older service sets no such row.
  await records.raw.transact(WRITING, async (tx) => tx.clearRange(systemKeys.logsDue()));
  const size = async () => (await logOf(records.raw, "acme")).size;
  await pass(clock, 300, 1_000);
  expect(await size()).toBe(0);
  await pass(clock, 330, 1_000);
  expect(await size()).toBe(1);
  stops = [];
  const stopping = stop();
  await clock.advance(10_000);
  await stopping;
});

test("a takeover is no failure", async () => {
  const clock = manualClock();
  const { lines, log } = keptLog();
  const leaseMs = LIMITS.leader_lease_ms;
  let isTaken = false;
  const store: Store = Object.assign(Object.create(records.store) as Store, {
    read: (async (options, body) => {
      const value = await records.store.read(options, body);
      // Another one takes over between the plan and its transaction.
      if (options.label === "plan_log" && !isTaken) {
        isTaken = true;
        const wanted = { job: "audit-log", holder: "another", leaseMs } as const;
        // Its clock is ahead.
        await acquireLease(records.store, { ...wanted, nowMs: clock.now() + leaseMs + 1 });
      }
      return value;
    }) satisfies Store["read"],
  });
  const stop = start({ clock, store, log });
  await pass(clock, 5);
  expect(isTaken).toBe(true);
  expect((await logOf(records.raw, "default")).size).toBe(0);
  expect(lines.map(({ text }) => text)).toContain("another watchdog has taken over the audit log");
  // The other one does not renew its lease.
  await pass(clock, 20);
  expect((await logOf(records.raw, "default")).size).toBe(1);
  expect(lines.filter(({ level }) => level === "warn")).toEqual([]);
  stops = [];
  const stopping = stop();
  await clock.advance(10_000);
  await stopping;
});

test("a damaged log is counted and logged once, and continues when it is restored", async () => {
  const clock = manualClock();
  const { lines, log } = keptLog();
  const key = tenantKeys("default").log();
  const stop = start({ clock, log });
  await pass(clock, 10);
  const before = await records.raw.read(WRITING, (reader) => reader.get(key));
  await records.raw.transact(WRITING, async (tx) => tx.clear(key));
  for (let i = 0; i < 3; i += 1) await create(records.repository);
  await create(records.repository, { tenant: "acme" });
  await pass(clock, 100, 500);
  expect((await logOf(records.raw, "acme")).size).toBe(1);
  expect(await metric("auditLogsDamaged")).toBe(1);
  expect(lines.filter(({ level }) => level === "error").map(({ text }) => text)).toEqual([
    "the audit log of a tenant cannot be written",
  ]);
  expect(lines.filter(({ level }) => level === "warn")).toEqual([]);
  await records.raw.transact(WRITING, async (tx) => tx.set(key, before!));
  await pass(clock, 50, 500);
  expect(await metric("auditLogsDamaged")).toBe(0);
  expect((await logOf(records.raw, "default")).size).toBe(4);
  expect(lines.map(({ text }) => text)).toContain("the audit log of a tenant is written again");
  stops = [];
  const stopping = stop();
  await clock.advance(10_000);
  await stopping;
});

test("the walk over many tenants holds the lease before each page, and a stop ends it", async () => {
  const tenants = 130;
  const dropped = { action: "dead_drop", subject: { seq: 1 }, occasion: "dead-drop-1" } as const;
  for (let i = 0; i < tenants; i += 1)
    await records.repository.tenantActs.record({ tenant: `tenant-${i}`, caller: "human=olga" }, [dropped]);
  const clock = manualClock();
  const labels: string[] = [];
  const store: Store = Object.assign(Object.create(records.store) as Store, {
    read: ((options, body) => {
      labels.push(options.label);
      return records.store.read(options, body);
    }) satisfies Store["read"],
    transact: ((options, body) => {
      // As a page on a slow store: without another hold() the lease would end within the walk.
      if (options.label === "mark_log") clock.skew(LIMITS.leader_renew_ms);
      if (/_leases?$/.test(options.label)) labels.push("lease");
      return records.store.transact(options, body);
    }) satisfies Store["transact"],
  });
  await records.raw.transact(WRITING, async (tx) => tx.clearRange(systemKeys.logsDue()));
  const first = start({ clock, store });
  while (labels.filter((label) => label === "walk_log").length < 2) {
    await clock.sleeping(1);
    // The rest before one step, so that none follows it.
    await clock.advance(5);
  }
  const pages = labels.filter((label) => label === "plan_log" || label === "walk_log" || label === "lease");
  const between = pages.slice(pages.indexOf("walk_log") + 1, pages.lastIndexOf("walk_log"));
  expect(between).toContain("plan_log");
  expect(between).toContain("lease");
  stops = [];
  const stopping = first();
  await clock.advance(10_000);
  await stopping;
  expect(labels.filter((label) => label === "walk_log").length).toBe(2);
  // Another holder walks from the start.
  start();
  await expect.poll(async () => (await logOf(records.raw, "tenant-99")).size, { timeout: 30_000 }).toBe(1);
});
