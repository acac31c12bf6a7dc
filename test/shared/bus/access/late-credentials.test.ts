// Valid credentials that arrive late, as those of a program on a busy machine, are accepted, and never count as refused.

import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { type GuardedNats, serviceGrant, startGuardedNats } from "../../../harness/guarded-nats.ts";
import { testLog } from "../../../harness/processes/nats.ts";

/** nats-server waits 2 s for credentials by default. */
const LATE_MS = 4_000;
const TOO_LATE_MS = 15_000;

let nats: GuardedNats;
beforeAll(async () => {
  nats = await startGuardedNats();
});
afterAll(() => nats?.stop());

/** Connects over a network that delays what the program sends. */
async function connectLate(lateMs: number) {
  const network = createServer(async (program) => {
    const server = connect(Number(new URL(nats.url).port), "127.0.0.1");
    for (const [socket, other] of [
      [program, server],
      [server, program],
    ] as const) {
      socket.on("error", () => other.destroy());
      socket.on("close", () => other.destroy());
    }
    server.pipe(program);
    await sleep(lateMs);
    program.pipe(server);
  });
  await once(network.listen(0, "127.0.0.1"), "listening");
  try {
    const { text } = await nats.issue(serviceGrant("writer"));
    return await connectBus({
      url: `nats://127.0.0.1:${(network.address() as AddressInfo).port}`,
      ...{ name: "writer/late", service: "writer", identity: "late", log: testLog },
      credentials: { creds: text },
      connectTimeoutMs: 60_000,
    });
  } finally {
    network.close();
  }
}

test("credentials that arrive after the server's usual limit are accepted", async () => {
  const bus = await connectLate(LATE_MS);
  expect((await bus.health({ timeoutMs: 30_000 })).ok).toBe(true);
  await bus.close();
}, 90_000);

test("credentials that the server did not wait for are no refusal: a repetition may succeed", async () => {
  await expect(connectLate(TOO_LATE_MS)).rejects.toMatchObject({
    kind: "unavailable",
    retryable: true,
    details: { reason: expect.stringMatching(/authentication timeout/i) as string },
  });
}, 90_000);
