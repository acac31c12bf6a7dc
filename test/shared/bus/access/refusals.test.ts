// The rights that a real server refuses to a service are known to its connection, without the ids in the subjects.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { type ConnectBusOptions, connectBus } from "../../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { type GuardedNats, serviceGrant, startGuardedNats } from "../../../harness/guarded-nats.ts";
import { testLog } from "../../../harness/processes/nats.ts";

let nats: GuardedNats;
beforeAll(async () => {
  nats = await startGuardedNats();
});
afterAll(() => nats?.stop());

/** The connection of a service with its own credentials. */
async function busOf(
  service: "reader" | "writer",
  identity: string,
  options: Pick<ConnectBusOptions, "monitorUrls"> = {},
): Promise<Bus> {
  const { text } = await nats.issue(serviceGrant(service));
  const credentials = { creds: text };
  const name = `${service}/${identity}`;
  return connectBus({ url: nats.url, name, service, identity, log: testLog, credentials, ...options });
}

test("a service that may not publish an event reports the kind of the subject, and no tenant", async () => {
  const bus = await busOf("reader", "test");
  expect((await bus.diagnose(Date.now)).refused).toEqual([]);
  bus.publish("fleet.event.wombat.CHECKPOINT_CREATED.task-1", { body: new Uint8Array() });
  bus.publish("$JS.API.STREAM.DELETE.FLEET_EVENTS", { body: new Uint8Array() });
  await expect
    .poll(async () => (await bus.diagnose(Date.now)).refused, { timeout: 20_000 })
    .toEqual(["publish fleet.event", "publish $JS.API.STREAM.DELETE"]);
  await bus.close();
});

test("the clock of the bus and its storage are read with the rights of a service", async () => {
  const bus = await busOf("writer", "test", { monitorUrls: () => nats.monitorUrl });
  const { storage, sync_always, connections, encrypted, loopback } = await bus.diagnose(Date.now);
  expect({ sync_always, encrypted, loopback }).toEqual({
    sync_always: true,
    encrypted: false,
    loopback: true,
  });
  expect(connections).toContain("writer/test");
  expect(storage).toMatchObject({ bytes: 0 });
  await bus.close();
});

test("a writer may queue the command of a caller while the store is away", async () => {
  const bus = await busOf("writer", "queues");
  await bus.reconcileStreams(fleetStreams({ storageBytes: 256 * 1024 * 1024 }));
  const subject = SUBJECTS.queue("acme", "human=ada", "task-1", "create");
  const options = { messageId: "queued-1", timeoutMs: 30_000 };
  const stored = await bus.publishDurable(subject, { body: Buffer.from("{}") }, options);
  expect(stored).toMatchObject({ stream: STREAMS.queue, duplicate: false });
  expect((await bus.diagnose(Date.now)).refused).toEqual([]);
  await bus.close();
}, 120_000);
