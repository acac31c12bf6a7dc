/** Operators get one alert for each time that a disk is low, from any number of writers, on a real nats-server. */
import { statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDiskCheck } from "../../../services/writer/monitor/disk-alert.ts";
import { newestAlert } from "../../../services/writer/monitor/earlier-alert.ts";
import type { AlertPage, AlertState } from "../../../shared/protocol/alert-queries.ts";
import { alertText } from "../../../shared/protocol/alert-text.ts";
import { NO_TASK } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createDiskSpace, type DiskSpace } from "../../../shared/runtime/disk-space.ts";
import { type InProcessFleet, openInProcessWriter } from "../../harness/in-process-fleet.ts";
import { testLog } from "../../harness/processes/nats.ts";

const path = tmpdir();

let fleet: InProcessFleet;
/** The real disk, with a reserve for which it is relieved or low. */
let current: DiskSpace;
const disk: DiskSpace = {
  disks: () => current.disks(),
  fullDisk: (use) => current.fullDisk(use),
  isExhausted: (use) => current.isExhausted(use),
  check: () => current.check(),
};

function setReserve(minFreeBytes: number): void {
  current = createDiskSpace([{ use: "store", path }], { minFreeBytes, clock: systemClock });
}

function setLow(): void {
  const { bavail, bsize } = statfsSync(path);
  setReserve(Math.floor((bavail * bsize * 2) / 3));
}

const setRelieved = () => setReserve(1);

beforeEach(async () => {
  setRelieved();
  fleet = await openInProcessWriter();
  fleet.disk = disk;
  await fleet.startReader();
});
afterEach(() => fleet.close());

const writer = () =>
  createDiskCheck({
    backgroundBus: fleet.bus,
    disk,
    clock: systemClock,
    log: testLog,
    metrics: fleet.metrics,
  });

async function alerts(): Promise<readonly AlertState[]> {
  return ((await fleet.ask("alerts", { type: "DISK_NEARLY_FULL" })).result as AlertPage).alerts;
}

/** The number of stored messages, with repetitions. */
const copies = async () =>
  (await fleet.bus.stream(STREAMS.alerts).newest({ filter: SUBJECTS.everyAlert, limit: 20 })).length;

test("each occasion has one alert, also with two writers and after a restart", async () => {
  const [first, second] = [writer(), writer()];
  const checkAll = () => Promise.all([first(), second()]);
  await checkAll();
  expect(await alerts()).toEqual([]);
  setLow();
  await checkAll();
  await checkAll();
  await writer()();
  const [{ alert, resolved }] = (await alerts()) as [AlertState];
  expect(await copies()).toBe(1);
  expect(alert).toMatchObject({
    severity: "critical",
    tenant: "default",
    data: { diskOf: ["store"], path },
  });
  expect(resolved).toBe(false);
  expect(alertText(alert)).toMatchObject({
    what: expect.stringMatching(/^The disk of the store on .* has \d+ MiB of \d+ MiB free: below \d+ MiB,/),
    command: "fleet status",
  });
  setRelieved();
  await checkAll();
  expect(await alerts()).toMatchObject([{ resolved: true }]);
  setLow();
  await checkAll();
  expect(await copies()).toBe(2);
  const gauge = (await fleet.metrics.diskFreeBytes.get()).values;
  expect(gauge).toMatchObject([{ labels: { disk_of: "store" }, value: expect.any(Number) }]);
});

test("the newest alert is found behind more confirmations of JetStream than alerts are looked at", async () => {
  const check = writer();
  setLow();
  await check();
  const view = fleet.bus.stream(STREAMS.alerts);
  const kind = { type: "DISK_NEARLY_FULL", severity: "critical", matches: () => true } as const;
  const before = await newestAlert(view, kind);
  expect(before.seq).toBe(1);
  const body = Buffer.from(JSON.stringify({ stream: STREAMS.exits, seq: 1 }));
  for (let n = 0; n < 150; n += 1)
    await fleet.publish(SUBJECTS.alert(DEFAULT_TENANT, "critical", NO_TASK), { body });
  expect(await newestAlert(view, kind)).toEqual(before);
});
