// How the connection of the bus uses its socket, with a real server.

import { Socket } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";

afterEach(() => vi.restoreAllMocks());

test("what is sent in one turn of the event loop leaves with one write, in order", async () => {
  const nats = await startNats();
  const open = (identity: string) => connectBus({ url: nats.url, name: identity, identity, log: testLog });
  const [sender, receiver] = [await open("sender"), await open("receiver")];
  const received: string[] = [];
  await receiver.subscribe("turn.>", ({ body }) => received.push(Buffer.from(body).toString()));
  const writes = [vi.spyOn(Socket.prototype, "_write"), vi.spyOn(Socket.prototype, "_writev" as "_write")];
  const sent = Array.from({ length: 50 }, (_, i) => `message ${i}`);
  for (const message of sent) {
    sender.publish("turn.any", { body: Buffer.from(message) });
    // The library's own write would come here.
    await Promise.resolve().then(() => {});
  }
  expect(writes.map(({ mock }) => mock.calls.length)).toEqual([0, 0]);
  await expect.poll(() => received).toEqual(sent);
  expect(writes[0]!.mock.calls.length + writes[1]!.mock.calls.length).toBeLessThan(10);
  await sender.close();
  await receiver.close();
  await nats.stop();
});

test("the last messages before a close arrive", async () => {
  const nats = await startNats();
  const open = (identity: string) => connectBus({ url: nats.url, name: identity, identity, log: testLog });
  const [sender, receiver] = [await open("sender"), await open("receiver")];
  const received: string[] = [];
  await receiver.subscribe("last.>", ({ body }) => received.push(Buffer.from(body).toString()));
  sender.publish("last.word", { body: Buffer.from("farewell") });
  await sender.close();
  await expect.poll(() => received).toEqual(["farewell"]);
  await receiver.close();
  await nats.stop();
});
