/** A bucket of a real bus, in which a client has JetStream store its confirmations at the subjects of records and bytes. */
import { jetstream, jetstreamManager, type MsgRequest } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus, ObjectBucket } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { artifactStream } from "../../../shared/bus/streams/streams.ts";
import { ARTIFACT_BUCKET } from "../../../shared/protocol/object-bucket.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const MIB = 1024 * 1024;
const TIMEOUT = { timeout: 60_000 };
const bytes = Buffer.from("the bytes of the part");
const { stream, record, content } = ARTIFACT_BUCKET;
let nats: TestNats;
let bus: Bus;
let bucket: ObjectBucket;
let client: NatsConnection;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "artifacts", identity: "artifacts", log: testLog });
  await bus.reconcileStreams([artifactStream({ artifactBytes: 64 * MIB })]);
  bucket = bus.bucket(ARTIFACT_BUCKET.name);
  client = await connect({ servers: nats.url });
}, 60_000);
afterAll(async () => {
  await client?.close();
  await bus?.close();
  await nats?.stop();
});

async function confirmAt(subject: string, count = 3): Promise<void> {
  for (let seq = 1; seq <= count; seq += 1)
    await jetstream(client).publish(subject, JSON.stringify({ stream: "FLEET_EXITS", seq }));
}

async function messagesAt(subject: string): Promise<number> {
  const manager = await jetstreamManager(client);
  const { state } = await manager.streams.info(stream, { subjects_filter: subject });
  return state.subjects?.[subject] ?? 0;
}

async function contentOf(name: string): Promise<string> {
  const manager = await jetstreamManager(client);
  const first = { seq: 1, next_by_subj: record(name) } as MsgRequest;
  const message = await manager.streams.getMessage(stream, first);
  return content(message!.json<{ nuid: string }>().nuid);
}

test("an object stays what it is behind confirmations of its record and of its bytes", TIMEOUT, async () => {
  const name = uuidv7();
  expect(await bucket.put(name, bytes)).toBe(true);
  await confirmAt(record(name));
  await confirmAt(await contentOf(name));
  expect(bytes.equals((await bucket.get(name))!)).toBe(true);
  expect(await bucket.size(name)).toBe(bytes.length);
  expect(await bucket.put(name, bytes)).toBe(true);
  expect(await bucket.put(name, Buffer.from("other bytes"))).toBe(false);
});

test(
  "an object is stored under a name that has confirmations, and again when its bytes are lost",
  TIMEOUT,
  async () => {
    const name = uuidv7();
    await confirmAt(record(name));
    expect([await bucket.get(name), await bucket.size(name)]).toEqual([null, null]);
    expect(await bucket.put(name, bytes)).toBe(true);
    expect(await messagesAt(record(name))).toBe(1);
    const manager = await jetstreamManager(client);
    await manager.streams.purge(stream, { filter: await contentOf(name) });
    await confirmAt(record(name));
    expect(await bucket.get(name)).toBeNull();
    expect(await bucket.put(name, bytes)).toBe(true);
    expect(bytes.equals((await bucket.get(name))!)).toBe(true);
  },
);

test(
  "a removal takes confirmations too, and the sweep of fragments no bytes of an object",
  TIMEOUT,
  async () => {
    const [kept, removed, never] = [uuidv7(), uuidv7(), uuidv7()];
    for (const name of [kept, removed]) expect(await bucket.put(name, bytes)).toBe(true);
    for (const name of [kept, removed, never]) await confirmAt(record(name));
    const bytesOfRemoved = await contentOf(removed);
    for (const name of [removed, never]) await bucket.remove(name);
    for (const subject of [record(removed), record(never), bytesOfRemoved])
      expect(await messagesAt(subject), subject).toBe(0);
    expect(await bucket.names()).toEqual(expect.not.arrayContaining([removed, never]));
    const unknown = Array.from({ length: 20 }, (_, n) => content(`unknown-${n}`));
    for (const subject of unknown) await confirmAt(subject, 1);
    expect(await bucket.removeFragments(Date.now() + 60_000)).toBeGreaterThanOrEqual(unknown.length);
    expect(bytes.equals((await bucket.get(kept))!)).toBe(true);
  },
);
