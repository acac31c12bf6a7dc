/** The SDK takes offers by query, with a real server: limits, shares, settlements, and outages of reader and server. */
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { offerConsumer, STREAMS, SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import type { FleetClient, ReceivedOffer } from "../../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { offeredTask } from "../../../harness/records/handoffs.ts";

let fleet: InProcessFleet;

beforeAll(async () => {
  fleet = await openInProcessFleet();
});
afterAll(() => fleet?.close());

const left = (type: string) => fleet.bus.stream(STREAMS.offers).count(SUBJECTS.offersOf("default", type));

/** Takes the offers of a type, and settles each as the task's handler does; resolves with the tasks and the stop. */
async function taker(
  client: FleetClient,
  type: string,
  use?: (offer: ReceivedOffer) => Promise<void> | void,
) {
  const tasks: string[] = [];
  const stop = await client.onOffer(type, async (offer) => {
    tasks.push(offer.data.task_id);
    await use?.(offer);
    offer.settle();
  });
  return { tasks, stop };
}

test("two clients share the offers: each offer reaches one of them", async () => {
  const takers = [
    await taker(await fleet.client("share-1"), "shared"),
    await taker(await fleet.client("share-2"), "shared"),
  ];
  const names = Array.from({ length: 12 }, (_, i) => `shared-${i}`);
  await Promise.all(names.map((name) => offeredTask(fleet.records, name, "shared")));
  const taken = () => takers.flatMap(({ tasks }) => tasks);
  await expect.poll(() => taken().length, { timeout: 10_000 }).toBe(names.length);
  expect(taken().sort()).toEqual(names.sort());
  await expect.poll(() => left("shared")).toBe(0);
  await Promise.all(takers.map(({ stop }) => stop()));
});

test("a busy client leaves further offers to another", async () => {
  const release = Promise.withResolvers<void>();
  const busy = await taker(await fleet.client("busy"), "busy", () => release.promise);
  await offeredTask(fleet.records, "busy-1", "busy");
  await expect.poll(() => busy.tasks).toEqual(["busy-1"]);
  const free = await taker(await fleet.client("free"), "busy");
  await offeredTask(fleet.records, "busy-2", "busy");
  await offeredTask(fleet.records, "busy-3", "busy");
  await expect.poll(() => free.tasks.length).toBe(2);
  release.resolve();
  await Promise.all([busy.stop(), free.stop()]);
  expect(busy.tasks).toEqual(["busy-1"]);
});

test("an idle client stops at once, and its request takes no later offer", async () => {
  const { stop } = await taker(await fleet.client("idle"), "idle");
  await new Promise((resolve) => setTimeout(resolve, 100));
  const begin = performance.now();
  await stop();
  expect(performance.now() - begin).toBeLessThan(2_000);
  await offeredTask(fleet.records, "idle-1", "idle");
  const other = await taker(await fleet.client("other"), "idle");
  await expect.poll(() => other.tasks, { timeout: LIMITS.offer_ack_wait_ms / 2 }).toEqual(["idle-1"]);
  await other.stop();
});

test("a declined offer comes again after its pause, and stop waits for its settlement", async () => {
  const client = await fleet.client("declining");
  const times: number[] = [];
  const stop = await client.onOffer("declined", async (offer) => {
    times.push(performance.now());
    if (times.length === 1) offer.decline(300);
    else offer.settle();
  });
  await offeredTask(fleet.records, "declined-1", "declined");
  await expect.poll(() => times.length).toBe(2);
  expect(times[1]! - times[0]!).toBeGreaterThan(250);
  await stop();
  expect(await left("declined")).toBe(0);
});

test("an offer that is decided after the acknowledgement wait stays with its handler", {
  timeout: 40_000,
}, async () => {
  const slow = await taker(
    await fleet.client("slow"),
    "slow",
    () => new Promise((resolve) => setTimeout(resolve, LIMITS.offer_ack_wait_ms + 3_000)),
  );
  await offeredTask(fleet.records, "slow-1", "slow");
  await expect.poll(() => slow.tasks).toEqual(["slow-1"]);
  const other = await taker(await fleet.client("hasty"), "slow");
  await expect.poll(() => left("slow"), { timeout: 20_000 }).toBe(0);
  expect(other.tasks).toEqual([]);
  await Promise.all([slow.stop(), other.stop()]);
});

test("a settlement without a reader is repeated until one answers", { timeout: 40_000 }, async () => {
  const client = await fleet.client("settling");
  const decided = Promise.withResolvers<void>();
  const settling = await taker(client, "settled", () => decided.promise);
  await offeredTask(fleet.records, "settled-1", "settled");
  await expect.poll(() => settling.tasks.length).toBe(1);
  await fleet.stopAll();
  decided.resolve();
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(await left("settled")).toBe(1);
  await fleet.startWriter();
  await fleet.startReader();
  await expect.poll(() => left("settled"), { timeout: LIMITS.offer_ack_wait_ms }).toBe(0);
  await settling.stop();
  expect(settling.tasks).toEqual(["settled-1"]);
});

test("waiting clients take offers again after a removed consumer and a killed server", {
  timeout: 60_000,
}, async () => {
  const { tasks, stop } = await taker(await fleet.client("patient"), "restarted");
  // An offer that is not published yet is no offer that is left, so the tasks are polled first.
  const taken = () => [...new Set(tasks)];
  await offeredTask(fleet.records, "restarted-1", "restarted");
  await expect.poll(taken).toEqual(["restarted-1"]);
  await expect.poll(() => left("restarted")).toBe(0);
  const nats = await connect({ servers: fleet.nats.url });
  await (await jetstreamManager(nats)).consumers.delete(
    STREAMS.offers,
    offerConsumer("default", "restarted"),
  );
  await nats.close();
  await offeredTask(fleet.records, "restarted-2", "restarted");
  await expect.poll(taken).toEqual(["restarted-1", "restarted-2"]);
  await expect.poll(() => left("restarted")).toBe(0);
  await fleet.nats.kill9();
  await fleet.nats.restart();
  await offeredTask(fleet.records, "restarted-3", "restarted");
  // A settlement that the kill took from the server's memory is repeated: an offer is delivered at least once.
  await expect.poll(taken).toEqual(["restarted-1", "restarted-2", "restarted-3"]);
  await stop();
});
