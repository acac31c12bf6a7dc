/**
 * The stop of a writer and of a reader under load: it answers every request that it has, the other one answers the rest, and it ends with exit
 * code 0. The requests are sent once, without the repetitions of the SDK, which would hide a lost one.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { environmentOf, startService, type TestService } from "../../harness/processes/services.ts";
import { input } from "../../harness/records/records.ts";

const READY_MS = 100_000;
const TEST_MS = 300_000;
const SENDERS = 8;
/** The requests that must be answered before and after each stop. */
const ANSWERED = 60;
/** Longer than any wait on a busy machine: a request that reaches it is lost. */
const LOST_MS = 60_000;

const folder = mkdtempSync(join(tmpdir(), "fleet-graceful-"));
let nats: TestNats;
let bus: Bus;
const services: TestService[] = [];

const start = async (role: "writer" | "reader"): Promise<TestService> => {
  const urls = { busUrl: nats.url, storeUrl: `lmdb:${folder}/store?shared` };
  const service = await startService(role, {
    ...environmentOf(urls),
    FLEET_RETENTION_EVERY: "off",
    FLEET_STOP_TIMEOUT: "60s",
  });
  services.push(service);
  return service;
};

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "load", identity: "load", log: testLog });
}, READY_MS);

afterAll(async () => {
  await Promise.all(services.map((service) => service.kill9()));
  await bus?.close();
  await nats?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const create = (sender: number): [subject: string, body: object] => [
  SUBJECTS.command("default", `agent-${sender}`, `task-${sender}`, "create"),
  { command_id: uuidv7(), checkpoint: input() },
];
const latest = (sender: number): [subject: string, body: object] => [
  SUBJECTS.query("default", `agent-${sender}`, "latest"),
  { task_id: `task-${sender}` },
];

/** Sends requests until it is stopped; resolves then with those that had no answer. */
function sendRequests(request: (sender: number) => [string, object]) {
  const lost: unknown[] = [];
  let answered = 0;
  let isWanted = true;
  const sender = async (n: number): Promise<void> => {
    while (isWanted) {
      const [subject, body] = request(n);
      try {
        const out = { body: Buffer.from(JSON.stringify(body)) };
        const answer = await bus.request(subject, out, { timeoutMs: LOST_MS });
        expect(JSON.parse(Buffer.from(answer.body).toString()).status).toEqual(expect.any(String));
        answered += 1;
      } catch (error) {
        lost.push(error);
      }
    }
  };
  const ended = Promise.all(Array.from({ length: SENDERS }, (_, n) => sender(n)));
  return {
    /** Resolves when so many further requests were answered. */
    async more(count: number): Promise<void> {
      const until = answered + count;
      await expect.poll(() => answered, { timeout: LOST_MS, interval: 10 }).toBeGreaterThanOrEqual(until);
    },
    async stop(): Promise<unknown[]> {
      isWanted = false;
      await ended;
      return lost;
    },
  };
}

test.each([
  ["writer", create],
  ["reader", latest],
] as const)(
  "a %s that stops under load loses no request",
  async (role, request) => {
    let [stopped, other] = await Promise.all([start(role), start(role)]);
    const load = sendRequests(request);
    await load.more(ANSWERED);
    for (let pass = 0; pass < 2; pass += 1) {
      expect(await stopped.terminate(), stopped.output()).toBe(0);
      await load.more(ANSWERED);
      [stopped, other] = [other, await start(role)];
      await load.more(ANSWERED);
    }
    expect(await load.stop()).toEqual([]);
    for (const service of [stopped, other]) expect(await service.terminate(), service.output()).toBe(0);
  },
  TEST_MS,
);
