/** Operators are alerted once before a stream is full, by any number of writers, on a real nats-server. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createFillCheck } from "../../../services/writer/monitor/stream-fill.ts";
import type { AlertPage, AlertState } from "../../../shared/protocol/alert-queries.ts";
import { alertText } from "../../../shared/protocol/alert-text.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { creation, type InProcessFleet, openInProcessWriter } from "../../harness/in-process-fleet.ts";
import { testLog } from "../../harness/processes/nats.ts";

const MIB = 1024 * 1024;
/** Dead letters get 2 MiB, queued commands 6.6 MiB. */
const STORAGE_BYTES = 20 * MIB;
const LETTER_BYTES = 50_000;
const SOON = { timeout: 20_000, interval: 100 };

let fleet: InProcessFleet;

beforeEach(async () => {
  fleet = await openInProcessWriter({ storageBytes: STORAGE_BYTES });
  await fleet.startReader();
});
afterEach(() => fleet.close());

const ratio = async (stream: string) => {
  const { bytes, bytesMax } = await fleet.bus.stream(stream).state();
  return bytes / bytesMax;
};

async function fillTo(part: number): Promise<void> {
  while ((await ratio(STREAMS.dead)) < part) {
    const subject = SUBJECTS.dead("default", STREAMS.queue, "invalid", "t");
    await fleet.publish(subject, { body: Buffer.alloc(LETTER_BYTES, "x") });
  }
}

async function drainTo(part: number): Promise<void> {
  for (const { seq } of await fleet.letters()) {
    if ((await ratio(STREAMS.dead)) < part) return;
    await fleet.bus.stream(STREAMS.dead).remove(seq);
  }
}

/** The check of a writer that has just started. */
const writer = () =>
  createFillCheck(
    { backgroundBus: fleet.bus, clock: systemClock, log: testLog, metrics: fleet.metrics },
    STREAMS.dead,
  );

async function alerts(): Promise<readonly AlertState[]> {
  const answer = await fleet.ask("alerts", { type: "STREAM_NEARLY_FULL" });
  return (answer.result as AlertPage).alerts;
}

/** The number of stored messages, with repetitions. */
const copies = async () =>
  (await fleet.bus.stream(STREAMS.alerts).newest({ filter: SUBJECTS.everyAlert, limit: 20 })).length;

test("each occasion has one alert, also with two writers and after a restart", async () => {
  await fleet.stopFirst();
  const [first, second] = [writer(), writer()];
  const checkAll = () => Promise.all([first(), second()]);
  await checkAll();
  await fillTo(0.75);
  await checkAll();
  expect(await alerts()).toEqual([]);
  await fillTo(0.81);
  await checkAll();
  await checkAll();
  const [{ alert, resolved }] = (await alerts()) as [AlertState];
  expect(alert).toMatchObject({ severity: "warning", tenant: "default", data: { stream: "FLEET_DEAD" } });
  expect(resolved).toBe(false);
  expect(alertText(alert)).toMatchObject({
    what: expect.stringMatching(
      /^The stream of dead letters is nearly full \(\d+ letters, 8\d % of 2 MiB\)\.$/,
    ),
    command: "fleet queue dead list",
  });

  await writer()();
  await drainTo(0.75);
  await checkAll();
  expect((await alerts()).map((one) => one.resolved)).toEqual([false]);
  await fillTo(0.81);
  await checkAll();
  await writer()();
  expect(await copies()).toBe(1);

  await drainTo(0.69);
  expect((await alerts()).map((one) => one.resolved)).toEqual([true]);
  await checkAll();
  await fillTo(0.81);
  await first();
  await second();
  expect(await alerts()).toHaveLength(2);
  expect(await copies()).toBe(2);
});

test("a writer that starts behind a stream of newer messages alerts again", async () => {
  await fleet.stopFirst();
  await fillTo(0.81);
  await writer()();
  await drainTo(0);
  await fillTo(0.81);
  await writer()();
  expect(await copies()).toBe(2);
});

test("a writer without a store alerts before the queue is full", async () => {
  fleet.outage = "refuses";
  for (let n = 0; (await ratio(STREAMS.queue)) < 0.81; n += 1)
    await fleet.enqueue("create", creation({ padding: "x".repeat(500_000) }), { task: `task-${n}` });
  await expect.poll(copies, SOON).toBe(1);
  fleet.outage = "none";
  await fleet.drained();
  const [queue] = await alerts();
  expect(queue).toMatchObject({ resolved: true, alert: { data: { stream: "FLEET_QUEUE" } } });
  const { what, command } = alertText((queue as AlertState).alert);
  expect(what).toMatch(
    /^The queue is nearly full \(\d+ commands, 8\d % of 7 MiB\): a full queue refuses commands\.$/,
  );
  expect(command).toBe("fleet queue status");
});
