/** Offers by query, with a real server: delivery to the caller, every end of the wait, outcomes, and hostile tokens. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DirectAnswer } from "../../../shared/bus/bus.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import type { ErrorBody } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { offerConsumer, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { environmentOf, startService } from "../../harness/processes/services.ts";

let fleet: InProcessFleet;
let nats: NatsConnection;
let manager: JetStreamManager;

beforeAll(async () => {
  fleet = await openInProcessFleet();
  nats = await connect({ servers: fleet.nats.url });
  manager = await jetstreamManager(nats);
});
afterAll(async () => {
  await nats?.close();
  await fleet?.close();
});

interface Caller {
  readonly tenant?: string;
  readonly agent?: string;
  readonly signal?: AbortSignal;
}

function next(query: object, { tenant = "default", agent = "agent-1", signal }: Caller = {}) {
  const subject = SUBJECTS.query(tenant, agent, "offer_next");
  return fleet.bus.requestDirect(
    subject,
    { body: Buffer.from(JSON.stringify(query)) },
    { timeoutMs: 8_000, signal },
  );
}

async function settle(query: object, tenant = "default") {
  return (await fleet.ask("offer_settle", query as Record<string, unknown>, tenant)) as {
    status: string;
    result?: object;
    error?: ErrorBody;
  };
}

const publish = (type: string, text: string, tenant = "default") =>
  fleet.publish(SUBJECTS.offer(tenant, type, `task-${text}`), { body: Buffer.from(text) });
const textOf = ({ message }: DirectAnswer) => Buffer.from(message.body).toString();
const tokenOf = ({ message }: DirectAnswer) => message.replyTo as string;
const errorOf = (answer: DirectAnswer) => (JSON.parse(textOf(answer)) as { error: ErrorBody }).error;
const consumer = (type: string) => manager.consumers.info(STREAMS.offers, offerConsumer("default", type));
const waiting = (type: string, count: number) =>
  expect.poll(async () => (await consumer(type).catch(() => null))?.num_waiting).toBe(count);
const stored = async (type: string) =>
  fleet.bus.stream(STREAMS.offers).count(SUBJECTS.offersOf("default", type));

test("an offer reaches the waiting caller at once, and its consumer has the settings of the protocol", async () => {
  const asked = next({ agent_type: "direct" });
  await waiting("direct", 1);
  const begin = performance.now();
  await publish("direct", "a");
  const answer = await asked;
  expect(performance.now() - begin).toBeLessThan(1_000);
  expect([answer.status, textOf(answer)]).toEqual([0, "a"]);
  expect(answer.message.subject).toBe(SUBJECTS.offer("default", "direct", "task-a"));
  expect(tokenOf(answer)).toMatch(/^\$JS\.ACK\.FLEET_OFFERS\.offers=default=direct\.1\./);
  const { config } = await consumer("direct");
  expect(config).toMatchObject({
    max_ack_pending: LIMITS.offers_pending_count_max,
    ack_wait: LIMITS.offer_ack_wait_ms * 1e6,
    max_waiting: LIMITS.offers_waiting_count_max,
    max_deliver: -1,
  });
  expect(await settle({ delivery: tokenOf(answer), outcome: "done" })).toEqual({
    status: "ok",
    result: { outcome: "done" },
  });
  expect(await stored("direct")).toBe(0);
  // Repeated, it changes nothing.
  expect(await settle({ delivery: tokenOf(answer), outcome: "done" })).toMatchObject({ status: "ok" });
});

test("two callers share the offers: each reaches one of them", async () => {
  const asked = [next({ agent_type: "shared" }), next({ agent_type: "shared" }, { agent: "agent-2" })];
  await waiting("shared", 2);
  await publish("shared", "1");
  await publish("shared", "2");
  const answers = await Promise.all(asked);
  expect(answers.map(textOf).sort()).toEqual(["1", "2"]);
  expect(answers.map(({ message }) => message.replyTo?.split(".")[4])).toEqual(["1", "1"]);
});

describe("the wait ends", () => {
  test("with status 408 when no offer came", async () => {
    const begin = performance.now();
    expect(await next({ agent_type: "idle", wait_ms: 300 })).toMatchObject({ status: 408 });
    expect(performance.now() - begin).toBeGreaterThan(250);
  });

  test("with status 409 when the consumer is removed, and the next request makes a new one", async () => {
    const asked = next({ agent_type: "removed" });
    await waiting("removed", 1);
    await manager.consumers.delete(STREAMS.offers, offerConsumer("default", "removed"));
    expect(await asked).toMatchObject({ status: 409 });
    await publish("removed", "b");
    expect(textOf(await next({ agent_type: "removed" }))).toBe("b");
  });

  test("with status 409 when too many requests wait", async () => {
    await manager.consumers.add(STREAMS.offers, {
      durable_name: offerConsumer("default", "crowded"),
      filter_subjects: [SUBJECTS.offersOf("default", "crowded")],
      ack_policy: "explicit",
      ack_wait: LIMITS.offer_ack_wait_ms * 1e6,
      max_ack_pending: LIMITS.offers_pending_count_max,
      max_waiting: 2,
    });
    const asked = [
      next({ agent_type: "crowded", wait_ms: 1_000 }),
      next({ agent_type: "crowded", wait_ms: 1_000 }),
    ];
    await waiting("crowded", 2);
    expect(await next({ agent_type: "crowded" })).toMatchObject({
      status: 409,
      reason: "Exceeded MaxWaiting",
    });
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([408, 408]);
  });

  test("when the caller is gone: its request takes no offer", async () => {
    const leaving = new AbortController();
    const asked = next({ agent_type: "left" }, { signal: leaving.signal });
    await waiting("left", 1);
    leaving.abort(new Error("stopped"));
    await expect(asked).rejects.toThrow("stopped");
    await publish("left", "c");
    const answer = await next({ agent_type: "left" });
    expect([textOf(answer), tokenOf(answer).split(".")[4]]).toEqual(["c", "1"]);
  });
});

test("the caller gets its offer although the reader is killed after it forwarded the request", async () => {
  const folder = await mkdtemp(join(tmpdir(), "fleet-offers-"));
  await fleet.stopAll();
  const urls = { busUrl: fleet.nats.url, storeUrl: `lmdb:${folder}/store` };
  const reader = await startService("reader", environmentOf(urls));
  try {
    const asked = next({ agent_type: "orphaned" });
    await waiting("orphaned", 1);
    await reader.kill9();
    await publish("orphaned", "d");
    expect(textOf(await asked)).toBe("d");
  } finally {
    await reader.kill9();
    await rm(folder, { recursive: true, force: true });
    await fleet.startWriter();
    await fleet.startReader();
  }
});

describe("an outcome", () => {
  test("`later` delivers the offer again after the pause", async () => {
    await publish("later", "e");
    const first = await next({ agent_type: "later" });
    const begin = performance.now();
    expect(await settle({ delivery: tokenOf(first), outcome: "later", pause_ms: 400 })).toMatchObject({
      status: "ok",
    });
    const second = await next({ agent_type: "later" });
    expect(performance.now() - begin).toBeGreaterThan(350);
    expect([textOf(second), tokenOf(second).split(".")[4]]).toEqual(["e", "2"]);
  });

  test("`refused` removes the message", async () => {
    await publish("refused", "f");
    const answer = await next({ agent_type: "refused" });
    expect(await settle({ delivery: tokenOf(answer), outcome: "refused" })).toMatchObject({ status: "ok" });
    await expect.poll(() => stored("refused")).toBe(0);
  });

  test("`working` keeps the offer beyond the acknowledgement wait", { timeout: 40_000 }, async () => {
    await publish("working", "g");
    const answer = await next({ agent_type: "working" });
    const pause = LIMITS.offer_ack_wait_ms * 0.6;
    for (let i = 0; i < 2; i += 1) {
      expect(await next({ agent_type: "working", wait_ms: pause })).toMatchObject({ status: 408 });
      expect(await settle({ delivery: tokenOf(answer), outcome: "working" })).toMatchObject({ status: "ok" });
    }
  });
});

const TOKEN = "$JS.ACK.FLEET_OFFERS.offers=default=hostile.1.1.1.1.0";

test.each<[name: string, delivery: string]>([
  ["another stream", TOKEN.replace("FLEET_OFFERS", "FLEET_QUEUE")],
  ["another tenant", TOKEN.replace("=default=", "=acme=")],
  ["the consumer of a service", "$JS.ACK.FLEET_OFFERS.relay.1.1.1.1.0"],
  ["a domain and an account", TOKEN.replace("FLEET_OFFERS", "_.ABCDEF.FLEET_OFFERS")],
  ["the API of the streams", "$JS.API.STREAM.PURGE.FLEET_OFFERS"],
  ["the API of the consumers", "$JS.API.CONSUMER.DELETE.FLEET_OFFERS.offers=default=hostile"],
  ["a command", SUBJECTS.command("default", "victim", "task-1", "take")],
  ["an event", SUBJECTS.event("default", "AGENT_FAILED", "task-1")],
  ["an inbox", "_INBOX.default.victim.x.1"],
  ["a wildcard", TOKEN.replace("hostile", "*")],
  ["a wildcard for the rest", "$JS.ACK.FLEET_OFFERS.offers=default=hostile.>"],
  ["a wildcard for a number", TOKEN.replace(".1.1", ".*.1")],
  ["a space", `${TOKEN} `],
  ["a space within", TOKEN.replace("hostile", "hos tile")],
  ["a line break", `${TOKEN}\r\nPUB evil 0\r\n`],
  ["a line break at the end", `${TOKEN}\n`],
  ["a further token", `${TOKEN}.1`],
  ["no numbers", "$JS.ACK.FLEET_OFFERS.offers=default=hostile"],
  ["a negative number", TOKEN.replace(".1.1", ".-1.1")],
  ["a third name", TOKEN.replace("=hostile", "=hostile=more")],
  ["a long number", TOKEN.replace(".0", `.${"9".repeat(21)}`)],
  ["a long name", TOKEN.replace("hostile", "h".repeat(65))],
  ["too many characters", `${TOKEN}${"0".repeat(LIMITS.offer_delivery_chars_max)}`],
  ["nothing", ""],
])("a token with %s is INVALID, and nothing is published through it", async (_, delivery) => {
  const published: string[] = [];
  // The reader asks for messages and inspects its streams at any time.
  const own = /^(_INBOX|fleet\.query|\$JS\.EVENT|\$JS\.API\.(CONSUMER\.MSG\.NEXT|(STREAM|CONSUMER)\.INFO))\./;
  const subscription = nats.subscribe(">", {
    callback: (_error, { subject }) => {
      if (!own.test(subject)) published.push(subject);
    },
  });
  await nats.flush();
  for (const outcome of ["done", "working"]) {
    expect(await settle({ delivery, outcome })).toMatchObject({
      status: "error",
      error: { code: "INVALID", fields: [{ path: "delivery" }] },
    });
  }
  await nats.flush();
  subscription.unsubscribe();
  expect(published).toEqual([]);
});

test("the offers of another tenant cannot be settled, and reach no caller of this one", async () => {
  const asked = next({ agent_type: "walled", wait_ms: 500 });
  await publish("walled", "h", "acme");
  expect(await asked).toMatchObject({ status: 408 });
  const answer = await next({ agent_type: "walled" }, { tenant: "acme" });
  expect(textOf(answer)).toBe("h");
  expect(await settle({ delivery: tokenOf(answer), outcome: "done" })).toMatchObject({
    error: { code: "INVALID" },
  });
  expect(await settle({ delivery: tokenOf(answer), outcome: "done" }, "acme")).toMatchObject({
    status: "ok",
  });
});

test("a request without a reply subject, or with one that is not the caller's inbox, takes no offer", async () => {
  await publish("silent", "i");
  const subject = SUBJECTS.query("default", "agent-1", "offer_next");
  const body = JSON.stringify({ agent_type: "silent" });
  nats.publish(subject, body);
  nats.publish(subject, body, { reply: "_INBOX.default.victim.x.1" });
  await nats.flush();
  const answer = await next({ agent_type: "silent" });
  expect([textOf(answer), tokenOf(answer).split(".")[4]]).toEqual(["i", "1"]);
});

test.each([
  ["agent_type", {}],
  ["agent_type", { agent_type: "a.b" }],
  ["agent_type", { agent_type: "*" }],
  ["wait_ms", { agent_type: "qa", wait_ms: 0 }],
  ["wait_ms", { agent_type: "qa", wait_ms: LIMITS.offer_wait_ms_max + 1 }],
])("a request with a wrong %s is refused by the reader: %j", async (path, query) => {
  expect(errorOf(await next(query))).toMatchObject({ code: "INVALID", fields: [{ path }] });
});

test.each([
  ["outcome", { outcome: "stolen" }],
  ["pause_ms", { outcome: "later", pause_ms: LIMITS.offer_pause_ms_max + 1 }],
  ["pause_ms", { outcome: "done", pause_ms: 1 }],
])("a settlement with a wrong %s is INVALID: %j", async (path, query) => {
  expect(await settle({ delivery: TOKEN, ...query })).toMatchObject({
    error: { code: "INVALID", fields: [{ path }] },
  });
});

test("without the stream of offers, a request and a settlement are UNAVAILABLE", async () => {
  await manager.streams.delete(STREAMS.offers);
  expect(errorOf(await next({ agent_type: "qa" }))).toMatchObject({ code: "UNAVAILABLE", retryable: true });
  expect(await settle({ delivery: TOKEN, outcome: "done" })).toMatchObject({
    error: { code: "UNAVAILABLE" },
  });
  await fleet.bus.reconcileStreams(fleetStreams({ storageBytes: 200 * 1024 * 1024 }));
  await publish("back", "j");
  expect(textOf(await next({ agent_type: "back" }))).toBe("j");
});
