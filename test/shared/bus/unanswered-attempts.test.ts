// A server on a busy machine may answer no attempt to connect in its time. A service then tries again, and an agent may.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import { freePort } from "../../harness/free-port.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const ATTEMPT_MS = 500;

let nats: TestNats;
/** Silent to the first connection; passes all later ones to the server. */
let network: Server;
let attempts = 0;

beforeAll(async () => {
  nats = await startNats();
  network = createServer((program) => {
    attempts += 1;
    program.on("error", () => {});
    if (attempts === 1) return;
    const server = connect(Number(new URL(nats.url).port), "127.0.0.1");
    server.on("error", () => program.destroy());
    server.on("close", () => program.destroy());
    program.on("close", () => server.destroy());
    program.pipe(server).pipe(program);
  });
  await once(network.listen(0, "127.0.0.1"), "listening");
});

afterAll(async () => {
  network?.close();
  await nats?.stop();
});

function connected(port: number, answerWithinMs?: number, connectTimeoutMs = ATTEMPT_MS) {
  const options = { name: "late", identity: "late", log: testLog, connectTimeoutMs };
  return connectBus({
    ...{ ...options, url: `nats://127.0.0.1:${port}` },
    ...(answerWithinMs !== undefined && { answerWithinMs }),
  });
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

test("an attempt without an answer is repeated within the given time", async () => {
  attempts = 0;
  const bus = await connected(portOf(network), 60_000, 5_000);
  expect(attempts).toBe(2);
  expect((await bus.health({ timeoutMs: 30_000 })).ok).toBe(true);
  await bus.close();
});

test("without that time, one attempt without an answer is a failure", async () => {
  attempts = 0;
  await expect(connected(portOf(network))).rejects.toMatchObject({ kind: "timeout" });
  expect(attempts).toBe(1);
});

test("a refused connection is not repeated", async () => {
  const begin = performance.now();
  await expect(connected(await freePort(), 600_000)).rejects.toMatchObject({ kind: "unavailable" });
  expect(performance.now() - begin).toBeLessThan(300_000);
});
