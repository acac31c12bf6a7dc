import { connect } from "@nats-io/transport-node";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus, Message, Outgoing } from "../../../shared/bus/bus.ts";
import { BusError } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

let nats: TestNats;
let caller: Bus;
let service: Bus;

beforeAll(async () => {
  nats = await startNats();
  caller = await connectBus({ url: nats.url, name: "caller", identity: "caller", log: testLog });
  service = await connectBus({ url: nats.url, name: "service", identity: "service", log: testLog });
});

afterAll(async () => {
  await caller?.close();
  await service?.close();
  await nats?.stop();
});

const text = (value: string): Outgoing => ({ body: Buffer.from(value) });
const read = (message: Message) => Buffer.from(message.body).toString();
const answers = {
  queue: "writer",
  concurrencyMax: 100,
  waitMsMax: 30_000,
  isOwnReply: () => true,
  dropped: () => {},
  overload: () => text("overload"),
  failed: (_: Message, error: unknown) => text(`failed: ${(error as Error).message}`),
};
const kindOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "no error",
    (error: unknown) => (error instanceof BusError ? error.kind : error),
  );

test("a request reaches a service and gets its answer, with headers in both directions", async () => {
  const stop = await service.serve("t.echo", answers, async (message) => ({
    body: message.body,
    headers: { seen: message.headers.get("content-type") ?? "nothing", subject: message.subject },
  }));
  const out = { body: Buffer.from("ü"), headers: { "content-type": "application/json" } };
  const answer = await caller.request("t.echo", out, { timeoutMs: 2_000 });
  expect(read(answer)).toBe("ü");
  expect(answer.headers.get("seen")).toBe("application/json");
  expect(answer.headers.get("subject")).toBe("t.echo");
  expect(answer.headers.get("absent")).toBeUndefined();
  await stop();
});

test("a client that is asked cannot learn the reply subject of another request", async () => {
  const raw = await connect({ servers: nats.url });
  const replies: string[] = [];
  for (const subject of ["fleet.agent.>", "fleet.query.>"])
    raw.subscribe(subject, {
      callback: (_, message) => {
        replies.push(message.reply ?? "none");
        message.respond("{}");
      },
    });
  await raw.flush();
  const agents = ["a", "b"].map((agent) => `fleet.agent.default.human=olga.${agent}.restart`);
  for (const subject of [...agents, "fleet.query.default.human=olga.task"])
    await caller.request(subject, text("{}"), { timeoutMs: 30_000 });
  const [first, second, query] = replies.map((reply) => {
    const at = reply.lastIndexOf(".");
    return { inbox: reply.slice(0, at), token: reply.slice(at + 1) };
  });
  for (const { inbox } of [first!, second!])
    expect(inbox).toMatch(/^_INBOX\.default\.human=olga\.clients\.\w+$/);
  expect(query!.inbox).toMatch(/^_INBOX\.default\.human=olga\.\w+$/);
  expect(second!.token).not.toBe(first!.token);
  for (const { token } of [first!, second!]) expect(token).toMatch(/^[A-Za-z0-9_-]{20,}$/);
  await raw.close();
});

test("a request to a subject without a service fails at once", async () => {
  const started = performance.now();
  expect(await kindOf(caller.request("t.unserved", text("x"), { timeoutMs: 10_000 }))).toBe("no_responders");
  expect(performance.now() - started).toBeLessThan(5_000);
});

test("a missing answer ends in a timeout, and a caller can abort earlier", async () => {
  const release = Promise.withResolvers<Outgoing>();
  const stop = await service.serve("t.silent", answers, () => release.promise);
  expect(await kindOf(caller.request("t.silent", text("x"), { timeoutMs: 60 }))).toBe("timeout");
  const reason = new Error("the caller aborted");
  const abort = new AbortController();
  const asked = caller.request("t.silent", text("x"), { timeoutMs: 10_000, signal: abort.signal });
  abort.abort(reason);
  await expect(asked).rejects.toBe(reason);
  await expect(
    caller.request("t.silent", text("x"), { timeoutMs: 10_000, signal: AbortSignal.abort(reason) }),
  ).rejects.toBe(reason);
  release.resolve(text("late"));
  await stop();
});

test("beyond its concurrency a service answers `overload`, and stop waits for open requests", async () => {
  const release = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const stop = await service.serve("t.busy", { ...answers, concurrencyMax: 1 }, async () => {
    started.resolve();
    await release.promise;
    return text("done");
  });
  const first = caller.request("t.busy", text("1"), { timeoutMs: 5_000 });
  await started.promise;
  expect(read(await caller.request("t.busy", text("2"), { timeoutMs: 5_000 }))).toBe("overload");
  let stopped = false;
  const stopping = stop().then(() => (stopped = true));
  // The server gets the unsubscription and this request on different connections, so the first may still be
  // accepted.
  while ((await kindOf(caller.request("t.busy", text("3"), { timeoutMs: 5_000 }))) !== "no_responders");
  expect(stopped).toBe(false);
  release.resolve();
  expect(read(await first)).toBe("done");
  await stopping;
});

test("new requests are refused while the oldest one waits too long, and accepted afterwards", async () => {
  const release = Promise.withResolvers<void>();
  const stop = await service.serve("t.slow", { ...answers, waitMsMax: 100 }, async (message) => {
    if (read(message) === "slow") await release.promise;
    return text("done");
  });
  const slow = caller.request("t.slow", text("slow"), { timeoutMs: 10_000 });
  const asked = async () => read(await caller.request("t.slow", text("quick"), { timeoutMs: 10_000 }));
  expect(await asked()).toBe("done");
  while ((await asked()) === "done");
  expect(await asked()).toBe("overload");
  release.resolve();
  expect(read(await slow)).toBe("done");
  expect(await asked()).toBe("done");
  await stop();
});

test("`failed` answers for a handler that throws, or whose answer is too large", async () => {
  const stop = await service.serve("t.broken", answers, async (message) => {
    if (read(message) === "large") return { body: new Uint8Array(3_000_000) };
    throw new Error("the handler failed");
  });
  expect(read(await caller.request("t.broken", text("x"), { timeoutMs: 2_000 }))).toBe(
    "failed: the handler failed",
  );
  expect(read(await caller.request("t.broken", text("large"), { timeoutMs: 2_000 }))).toBe(
    "failed: the message is larger than the server accepts",
  );
  await stop();
});

test("a request larger than the server accepts is refused before it is sent", async () => {
  const large = { body: new Uint8Array(2_097_153) };
  expect(await kindOf(caller.request("t.large", large, { timeoutMs: 2_000 }))).toBe("too_large");
});

test("a bare message of a foreign client has empty headers and no reply address", async () => {
  const arrived = Promise.withResolvers<Message>();
  const stop = await service.subscribe("t.bare", arrived.resolve);
  const stranger = await connect({ servers: nats.url });
  stranger.publish("t.bare");
  const message = await arrived.promise;
  expect(message.headers.keys()).toEqual([]);
  expect(message.headers.get("traceparent")).toBeUndefined();
  expect(message.replyTo).toBeUndefined();
  expect(message.body.length).toBe(0);
  await stranger.close();
  await stop();
});

test("a service drops a message without a reply address, and carries nothing out for it", async () => {
  const dropped: (string | undefined)[] = [];
  const handled: string[] = [];
  const stop = await service.serve(
    "t.silent",
    { ...answers, dropped: ({ replyTo }) => void dropped.push(replyTo) },
    async (message) => {
      handled.push(read(message));
      return text("done");
    },
  );
  caller.publish("t.silent", text("1"));
  expect(read(await caller.request("t.silent", text("2"), { timeoutMs: 20_000 }))).toBe("done");
  expect([handled, dropped]).toEqual([["2"], [undefined]]);
  await stop();
});

test("a subscriber that throws still gets the next message", async () => {
  const second = Promise.withResolvers<string>();
  const stop = await service.subscribe("t.throws", (message) => {
    if (read(message) === "1") throw new Error("first");
    second.resolve(read(message));
  });
  caller.publish("t.throws", text("1"));
  caller.publish("t.throws", text("2"));
  expect(await second.promise).toBe("2");
  await stop();
});

test("the trace of the caller crosses the bus", async () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const parent = { get: (key: string) => (key === "traceparent" ? traceparent : undefined) };
  const stop = await service.serve("t.trace", answers, async (message) =>
    text(message.headers.get("traceparent") ?? "none"),
  );
  const inside = await withSpan(
    "test",
    {},
    () => caller.request("t.trace", text("x"), { timeoutMs: 2_000 }),
    { parent },
  );
  expect(read(inside)).toContain("0af7651916cd43dd8448eb211c80319c");
  expect(read(await caller.request("t.trace", text("x"), { timeoutMs: 2_000 }))).toBe("none");
  await stop();
});

test("a header that would break the protocol line is refused", async () => {
  const evil = { body: new Uint8Array(), headers: { "content-type": "a\r\nPUB x 0" } };
  await expect(caller.request("t.evil", evil, { timeoutMs: 1_000 })).rejects.toThrow(TypeError);
  expect(() => caller.publish("t.evil", { body: new Uint8Array(), headers: { "a:b": "c" } })).toThrow(
    TypeError,
  );
});

test("headers of any name and value arrive unchanged", async () => {
  const stop = await service.serve("t.headers", answers, async (message) => {
    const all = message.headers.keys().map((name) => [name, message.headers.get(name) ?? "missing"]);
    return { body: message.body, headers: Object.fromEntries(all) };
  });
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/).map((text) => `x-${text}`);
  const value = fc.string({ unit: "grapheme" }).filter((text) => !/[\r\n]/.test(text));
  await fc.assert(
    fc.asyncProperty(fc.dictionary(name, value), fc.uint8Array(), async (headers, body) => {
      const answer = await caller.request("t.headers", { body, headers }, { timeoutMs: 5_000 });
      expect(Buffer.from(answer.body)).toEqual(Buffer.from(body));
      const got = Object.fromEntries(answer.headers.keys().map((key) => [key, answer.headers.get(key)]));
      // The wire does not keep white space around a value.
      expect(got).toEqual(
        Object.fromEntries(Object.entries(headers).map(([key, text]) => [key, text.trim()])),
      );
    }),
    { numRuns: 60 },
  );
  await stop();
});

test("each of many concurrent requests gets its own answer", async () => {
  const stop = await service.serve("t.many", { ...answers, concurrencyMax: 5_000 }, async (message) => {
    if (message.body.length % 2 === 0) await new Promise(setImmediate);
    return { body: message.body };
  });
  const asked = Array.from({ length: 2_000 }, (_, i) =>
    caller.request("t.many", text(String(i)), { timeoutMs: 10_000 }).then(read),
  );
  expect(await Promise.all(asked)).toEqual(Array.from({ length: 2_000 }, (_, i) => String(i)));
  await stop();
});
