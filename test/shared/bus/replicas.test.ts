// The copies of streams on real servers of a cluster, which grows, and which loses a server.

import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams, type Replicas } from "../../../shared/bus/streams/streams.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";
import { type NatsCluster, prepareCluster } from "./nats-cluster.ts";

const TEST_MS = 120_000;
const POLL = { timeout: 60_000, interval: 100 };
/** A cluster answers nothing while it elects. */
const waitFor = <T>(call: () => Promise<T>): Promise<T> => vi.waitFor(call, POLL);
const SUBJECT = "fleet.event.default.CHECKPOINT_CREATED.task-1";

let cluster: NatsCluster;
let closers: (() => Promise<unknown>)[];

beforeEach(async () => {
  cluster = await prepareCluster(3);
  closers = [];
});
afterEach(async () => {
  for (const close of closers.reverse()) await close();
  await cluster.stop();
});

async function connectService(url: string): Promise<Bus> {
  const bus = await connectBus({
    url,
    name: "writer",
    service: "writer",
    identity: "writer-0",
    log: testLog,
  });
  closers.push(() => bus.close());
  return bus;
}

async function connectRaw(url: string): Promise<NatsConnection> {
  const connection = await connect({ servers: url, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
  closers.push(() => connection.close());
  return connection;
}

/** A cluster takes streams when its servers have elected a leader. */
async function ready(url: string): Promise<NatsConnection> {
  const connection = await waitFor(() => connectRaw(url));
  await waitFor(async () => (await jetstreamManager(connection)).getAccountInfo());
  return connection;
}

const streams = (replicas?: Replicas) =>
  fleetStreams({ storageBytes: 1_000_000_000, ...(replicas !== undefined && { replicas }) });

async function infoOf(connection: NatsConnection) {
  return (await jetstreamManager(connection)).streams.info(STREAMS.events);
}

const copiesOf = async (connection: NatsConnection) => (await infoOf(connection)).config.num_replicas;

test("a server without a cluster keeps one copy", { timeout: TEST_MS }, async () => {
  const nats = await startNats();
  closers.push(() => nats.stop());
  const bus = await connectService(nats.url);
  await bus.reconcileStreams(streams());
  expect(await copiesOf(await connectRaw(nats.url))).toBe(1);
});

test("a cluster of three servers keeps three copies: a killed leader loses no message and stops no writer", {
  timeout: TEST_MS,
}, async () => {
  for (const index of [0, 1, 2]) cluster.start(index, 3);
  const url = [0, 1, 2].map((index) => cluster.url(index)).join(",");
  const connection = await ready(cluster.url(0));
  const bus = await connectService(url);
  // As an older version made them.
  await waitFor(() => bus.reconcileStreams(streams(1)));
  const client = jetstream(connection);
  for (let n = 0; n < 10; n += 1) await client.publish(SUBJECT, `${n}`);
  await waitFor(() => bus.reconcileStreams(streams()));
  expect(await waitFor(() => copiesOf(connection))).toBe(3);
  const followers = async () =>
    (await waitFor(() => infoOf(connection))).cluster?.replicas?.filter(({ current }) => current);
  await expect.poll(async () => (await followers())?.length, POLL).toBe(2);
  const leader = Number((await waitFor(() => infoOf(connection))).cluster?.leader?.replace("server-", ""));
  const others = [0, 1, 2].filter((index) => index !== leader);
  const left = await connectRaw(cluster.url(others[0]!));
  await cluster.kill9(leader);
  await waitFor(() => jetstream(left).publish(SUBJECT, "10"));
  expect((await waitFor(() => infoOf(left))).state.messages).toBeGreaterThanOrEqual(11);
  const first = await waitFor(async () =>
    (await jetstreamManager(left)).streams.getMessage(STREAMS.events, { seq: 1 }),
  );
  expect(first?.string()).toBe("0");
});

test("a client leaves a frozen server of a cluster within seconds", { timeout: TEST_MS }, async () => {
  for (const index of [0, 1, 2]) cluster.start(index, 3);
  const all = [0, 1, 2];
  await ready(cluster.url(0));
  const bus = await waitFor(() => connectService(all.map((index) => cluster.url(index)).join(",")));
  const clients = await Promise.all(all.map((index) => cluster.clientsOf(index)));
  const own = clients.findIndex((names) => names.includes("writer"));
  const connected = Promise.withResolvers<number>();
  const begin = performance.now();
  bus.onStatus((status) => {
    if (status === "connected") connected.resolve(performance.now() - begin);
  });
  cluster.pause(own);
  // Twice the time that the pings take, because the machine may be busy, and half of what they once took.
  expect(await connected.promise).toBeLessThan(13_000);
  expect(await waitFor(() => bus.health({ timeoutMs: 2_000 }))).toMatchObject({ ok: true });
});

test("two servers keep one copy, and the copies are raised in place when the third comes", {
  timeout: TEST_MS,
}, async () => {
  for (const index of [0, 1]) cluster.start(index, 2);
  const connection = await ready(cluster.url(0));
  const bus = await connectService(cluster.url(0));
  await waitFor(() => bus.reconcileStreams(streams()));
  expect(await waitFor(() => copiesOf(connection))).toBe(1);
  await jetstream(connection).publish(SUBJECT, "kept");
  expect(await bus.inspectStreams({ repair: true })).toEqual([]);
  cluster.start(2, 3);
  await expect
    .poll(async () => {
      expect(await bus.inspectStreams({ repair: true })).toEqual([]);
      return waitFor(() => copiesOf(connection));
    }, POLL)
    .toBe(3);
  expect((await waitFor(() => infoOf(connection))).state.messages).toBe(1);
});
