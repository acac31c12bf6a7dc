import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { OLDEST_NATS } from "../../../deploy/local/versions.mjs";
import { type Bus, BusError } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { isVersionAtLeast, OLDEST_SERVER } from "../../../shared/bus/server-check.ts";
import { covers } from "../../../shared/bus/streams/stream-directory.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

let nats: TestNats;
const open: Bus[] = [];

beforeAll(async () => {
  nats = await startNats();
});

afterAll(async () => {
  for (const bus of open) await bus.close({ drainMs: 1_000 });
  await nats?.stop();
});

async function opened(identity: string): Promise<Bus> {
  const bus = await connectBus({
    url: nats.url,
    name: identity,
    identity,
    log: testLog,
    monitorUrls: () => nats.monitorUrl,
  });
  open.push(bus);
  return bus;
}

const kindOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "no error",
    (error: unknown) => (error instanceof BusError ? error.kind : error),
  );

test("durability is proven by the connected server, and unknown without its monitoring address", async () => {
  const bus = await opened("proof");
  expect(await bus.proveDurability()).toEqual({
    ...{ version: bus.serverVersion, syncAlways: true },
    ...{ unsafe: [], silent: [] },
  });
  const blind = await connectBus({ url: nats.url, name: "blind", identity: "blind", log: testLog });
  open.push(blind);
  expect((await blind.proveDurability()).syncAlways).toBe("unknown");
  const other = await startNats();
  const elsewhere = {
    url: nats.url,
    name: "else",
    identity: "else",
    log: testLog,
    monitorUrls: other.monitorUrl!,
  };
  const misled = await connectBus(elsewhere);
  open.push(misled);
  // Another server, which proves nothing about this one.
  expect(await misled.proveDurability()).toMatchObject({ syncAlways: "unknown", silent: [other.monitorUrl] });
  await other.stop();
});

test("without a server, connecting fails or waits, as the options state", async () => {
  const other = await startNats();
  await other.kill9();
  const options = { url: other.url, name: "early", identity: "early", log: testLog };
  expect(await kindOf(connectBus(options))).toBe("unavailable");
  const waiting = connectBus({ ...options, waitOnFirstConnect: true });
  await other.restart();
  const bus = await waiting;
  expect((await bus.health({ timeoutMs: 5_000 })).ok).toBe(true);
  await bus.close();
  await other.stop();
});

test("a server that is too old is refused, and the error has both versions", async () => {
  const old = createServer((socket) => {
    socket.write(
      `INFO ${JSON.stringify({ server_id: "x", version: "2.9.10", proto: 1, headers: true, max_payload: 1_000 })}\r\n`,
    );
    socket.on("data", (data) => data.includes("PING") && socket.write("PONG\r\n"));
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => old.listen(0, "127.0.0.1", resolve));
  const { port } = old.address() as { port: number };
  const error = await connectBus({
    url: `nats://127.0.0.1:${port}`,
    name: "x",
    identity: "x",
    log: testLog,
  }).catch((failure: unknown) => failure);
  expect(error).toBeInstanceOf(StartupError);
  expect(error).toMatchObject({ exitCode: 69, details: { found: "2.9.10", needed: OLDEST_SERVER } });
  old.close();
});

test("versions are compared by number, subject patterns by token", () => {
  expect(OLDEST_SERVER).toBe(OLDEST_NATS);
  expect(isVersionAtLeast("2.10.27", "2.10.27")).toBe(true);
  expect(isVersionAtLeast("2.9.30", "2.10.27")).toBe(false);
  expect(isVersionAtLeast("2.12.1-RC.1", "2.12.1")).toBe(true);
  expect(covers("fleet.event.>", "fleet.event.a.B.c")).toBe(true);
  expect(covers("fleet.event.>", "fleet.event")).toBe(false);
  expect(covers("a.*.c", "a.b.c")).toBe(true);
  expect(covers("a.*", "a.b.c")).toBe(false);
});
