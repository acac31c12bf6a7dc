/** A fleet whose streams another program changed reports them by name, in /readyz and in `fleet status`. */
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { administratorAuthenticator } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";

const SOON = { timeout: 30_000, interval: 250 };

let fleet: TestFleet;
let nats: NatsConnection;
let manager: JetStreamManager;

beforeAll(async () => {
  fleet = await startFleet();
  nats = await connect({ servers: fleet.url, authenticator: await administratorAuthenticator(fleet.home) });
  manager = await jetstreamManager(nats);
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
});

async function readiness() {
  const response = await fetch(`${fleet.opsUrl()}/readyz`);
  return { status: response.status, body: await response.text() };
}

const statusCommand = () => callCli(["status"], { env: { FLEET_HOME: fleet.home, FLEET_URL: fleet.url } });

async function expectFinding(stream: string, kind: string): Promise<void> {
  const body = expect.stringContaining(`stream ${stream}: ${kind}`);
  await expect.poll(readiness, SOON).toMatchObject({ status: 503, body });
  const { exit, out } = await statusCommand();
  expect({ exit, out }).toEqual({
    exit: 69,
    out: expect.stringMatching(new RegExp(`^stream +${kind} +${stream}: `, "m")),
  });
}

test("a stream that cannot be created again makes the fleet not ready, until it can", async () => {
  await expect.poll(readiness, SOON).toMatchObject({ status: 200 });
  await manager.streams.delete("FLEET_EXITS");
  // Its subjects are taken, if the fleet has not yet created the stream again.
  await expect
    .poll(
      () => manager.streams.add({ name: "OTHER", subjects: ["fleet.exit.>"] }).then(() => true, again),
      SOON,
    )
    .toBe(true);
  // The server accepts two streams with the same subjects if both are created in the same moment.
  await manager.streams.delete("FLEET_EXITS").catch(() => {});
  await expectFinding("FLEET_EXITS", "missing");
  await manager.streams.delete("OTHER");
  await expect.poll(readiness, SOON).toMatchObject({ status: 200 });
}, 120_000);

test("a sealed stream makes the fleet not ready", async () => {
  const { config } = await manager.streams.info("FLEET_EXITS");
  await manager.streams.update("FLEET_EXITS", { ...config, sealed: true } as never);
  await expectFinding("FLEET_EXITS", "sealed");
  await manager.streams.delete("FLEET_EXITS");
  await expect.poll(readiness, SOON).toMatchObject({ status: 200 });
}, 120_000);

/** The consumers of the queue that the fleet has restored, from its log: their health is bad for a moment only. */
const restored = () =>
  fleet
    .output()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ stream, consumer, repaired }) => stream === "FLEET_QUEUE" && consumer !== null && repaired)
    .map(({ consumer, kind }) => `${consumer as string} ${kind as string}`);

async function nameOfConsumer(): Promise<string> {
  const { value: consumer } = await manager.consumers.list("FLEET_QUEUE")[Symbol.asyncIterator]().next();
  return (consumer as { name: string }).name;
}

test("a paused consumer is named and restored", async () => {
  const name = await nameOfConsumer();
  await pause(name);
  await expect.poll(restored, SOON).toContain(`${name} paused`);
  await expect.poll(readiness, SOON).toMatchObject({ status: 200 });
}, 120_000);

// Its owner may be faster than the inspection, so that the log does not name it.
test("a removed consumer is restored", async () => {
  const name = await nameOfConsumer();
  await manager.consumers.delete("FLEET_QUEUE", name);
  const found = () =>
    manager.consumers.info("FLEET_QUEUE", name).then(
      ({ paused }) => paused !== true,
      () => false,
    );
  await expect.poll(found, SOON).toBe(true);
  await expect.poll(readiness, SOON).toMatchObject({ status: 200 });
}, 120_000);

const pause = (name: string) =>
  manager.consumers.pause("FLEET_QUEUE", name, new Date(Date.now() + 3_600_000));

/** Deletes the stream once more. */
async function again(): Promise<boolean> {
  await manager.streams.delete("FLEET_EXITS").catch(() => false);
  return false;
}
