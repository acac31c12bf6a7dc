/** The job of the watchdogs: appends what agents write, measures its delay, and reads little when nothing happens. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { startAuditLogger } from "../../../../services/watchdog/audit-log/audit-logger.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { type Clock, systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics, type Metrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create } from "../../../harness/records/records.ts";
import { openSignedRecords, type SignedRecords } from "../../../harness/records/signed.ts";
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

function start({ clock = systemClock as Clock, store = records.store } = {}): Stop {
  const leases = createLeaderLeases(store, `watchdog-${stops.length}`, () => clock.now());
  const stop = startAuditLogger({ store, leases, clock, log: testLog, metrics });
  stops.push(stop);
  return stop;
}

const log = () => logOf(records.raw, "default", records.key.publicKey);
const sizeIs = (size: number) => expect.poll(async () => (await log()).size, { timeout: 30_000 }).toBe(size);
const metric = async (name: "auditLogSize" | "auditLogDelaySeconds" | "auditLogAppendedTotal") =>
  (await metrics[name].get()).values[0]?.value;

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
  // The worker and the measurement.
  const pass = async (seconds: number): Promise<void> => {
    for (let ms = 0; ms < seconds * 1_000; ms += 100) {
      await clock.sleeping(2);
      await clock.advance(100);
    }
  };
  await pass(10);
  expect((await log()).size).toBe(1);
  [reads, writes] = [0, 0];
  await pass(60);
  expect(writes).toBe(0);
  expect(reads).toBeGreaterThan(20);
  expect(reads).toBeLessThanOrEqual(31);
  stops = [];
  const stopping = stop();
  await clock.advance(10_000);
  await stopping;
});
