/** Requests and their services, and messages without an answer. */
import fc from "fast-check";
import { expect } from "vitest";
import type { Message, Outgoing } from "../../../shared/bus/bus.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import { type ContractCases, failureKind, outText, SERVED, textIn } from "./bench.ts";

export const requestCases: ContractCases = {
  "a request reaches a service and gets its answer, with headers in both directions": async (bench) => {
    const stop = await bench.service.serve("t.echo", SERVED, async (message) => ({
      body: message.body,
      headers: { seen: message.headers.get("content-type") ?? "nothing", subject: message.subject },
    }));
    const out = { body: Buffer.from("ü"), headers: { "content-type": "application/json" } };
    const answer = await bench.bus.request("t.echo", out, { timeoutMs: 60_000 });
    expect(textIn(answer)).toBe("ü");
    expect(answer.headers.get("seen")).toBe("application/json");
    expect(answer.headers.get("subject")).toBe("t.echo");
    expect(answer.headers.get("absent")).toBeUndefined();
    await stop();
  },

  "a client that is asked cannot learn the reply subject of another request": async (bench) => {
    const raw = await bench.stranger();
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
      await bench.bus.request(subject, outText("{}"), { timeoutMs: 30_000 });
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
  },

  "a request to a subject without a service fails at once": async (bench) => {
    const started = performance.now();
    expect(await failureKind(bench.bus.request("t.unserved", outText("x"), { timeoutMs: 60_000 }))).toBe(
      "no_responders",
    );
    expect(performance.now() - started).toBeLessThan(30_000);
  },

  "a missing answer ends in a timeout, and a caller can abort earlier": async (bench) => {
    const release = Promise.withResolvers<Outgoing>();
    const stop = await bench.service.serve("t.silent", SERVED, () => release.promise);
    expect(await failureKind(bench.bus.request("t.silent", outText("x"), { timeoutMs: 60 }))).toBe("timeout");
    const reason = new Error("the caller aborted");
    const abort = new AbortController();
    const asked = bench.bus.request("t.silent", outText("x"), { timeoutMs: 60_000, signal: abort.signal });
    abort.abort(reason);
    await expect(asked).rejects.toBe(reason);
    await expect(
      bench.bus.request("t.silent", outText("x"), { timeoutMs: 60_000, signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason);
    release.resolve(outText("late"));
    await stop();
  },

  "beyond its concurrency a service answers `overload`, and stop waits for open requests": async (bench) => {
    const release = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const stop = await bench.service.serve("t.busy", { ...SERVED, concurrencyMax: 1 }, async () => {
      started.resolve();
      await release.promise;
      return outText("done");
    });
    const first = bench.bus.request("t.busy", outText("1"), { timeoutMs: 60_000 });
    await started.promise;
    expect(textIn(await bench.bus.request("t.busy", outText("2"), { timeoutMs: 60_000 }))).toBe("overload");
    let stopped = false;
    const stopping = stop().then(() => (stopped = true));
    // The server gets the unsubscription and this request on different connections, so the first may still be
    // accepted.
    while (
      (await failureKind(bench.bus.request("t.busy", outText("3"), { timeoutMs: 60_000 }))) !==
      "no_responders"
    );
    expect(stopped).toBe(false);
    release.resolve();
    expect(textIn(await first)).toBe("done");
    await stopping;
  },

  "new requests are refused while the oldest one waits too long, and accepted afterwards": async (bench) => {
    const release = Promise.withResolvers<void>();
    const stop = await bench.service.serve("t.slow", { ...SERVED, waitMsMax: 8_000 }, async (message) => {
      if (textIn(message) === "slow") await release.promise;
      return outText("done");
    });
    const slow = bench.bus.request("t.slow", outText("slow"), { timeoutMs: 60_000 });
    const asked = async () =>
      textIn(await bench.bus.request("t.slow", outText("quick"), { timeoutMs: 60_000 }));
    expect(await asked()).toBe("done");
    const polled = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return asked();
    };
    while ((await polled()) === "done");
    expect(await asked()).toBe("overload");
    release.resolve();
    expect(textIn(await slow)).toBe("done");
    expect(await asked()).toBe("done");
    await stop();
  },

  "`failed` answers for a handler that throws, or whose answer is too large": async (bench) => {
    const stop = await bench.service.serve("t.broken", SERVED, async (message) => {
      if (textIn(message) === "large") return { body: new Uint8Array(3_000_000) };
      throw new Error("the handler failed");
    });
    expect(textIn(await bench.bus.request("t.broken", outText("x"), { timeoutMs: 60_000 }))).toBe(
      "failed: the handler failed",
    );
    expect(textIn(await bench.bus.request("t.broken", outText("large"), { timeoutMs: 60_000 }))).toBe(
      "failed: the message is larger than the server accepts",
    );
    await stop();
  },

  "a request larger than the server accepts is refused before it is sent": async (bench) => {
    const large = { body: new Uint8Array(2_097_153) };
    expect(await failureKind(bench.bus.request("t.large", large, { timeoutMs: 60_000 }))).toBe("too_large");
  },

  "a bare message of a foreign client has empty headers and no reply address": async (bench) => {
    const arrived = Promise.withResolvers<Message>();
    const stop = await bench.service.subscribe("t.bare", arrived.resolve);
    const stranger = await bench.stranger();
    stranger.publish("t.bare");
    const message = await arrived.promise;
    expect(message.headers.keys()).toEqual([]);
    expect(message.headers.get("traceparent")).toBeUndefined();
    expect(message.replyTo).toBeUndefined();
    expect(message.body.length).toBe(0);
    await stranger.close();
    await stop();
  },

  "a service drops a message without a reply address, and carries nothing out for it": async (bench) => {
    const dropped: (string | undefined)[] = [];
    const handled: string[] = [];
    const stop = await bench.service.serve(
      "t.silent",
      { ...SERVED, dropped: ({ replyTo }) => void dropped.push(replyTo) },
      async (message) => {
        handled.push(textIn(message));
        return outText("done");
      },
    );
    bench.bus.publish("t.silent", outText("1"));
    expect(textIn(await bench.bus.request("t.silent", outText("2"), { timeoutMs: 60_000 }))).toBe("done");
    expect([handled, dropped]).toEqual([["2"], [undefined]]);
    await stop();
  },

  "a subscriber that throws still gets the next message": async (bench) => {
    const second = Promise.withResolvers<string>();
    const stop = await bench.service.subscribe("t.throws", (message) => {
      if (textIn(message) === "1") throw new Error("first");
      second.resolve(textIn(message));
    });
    bench.bus.publish("t.throws", outText("1"));
    bench.bus.publish("t.throws", outText("2"));
    expect(await second.promise).toBe("2");
    await stop();
  },

  "the trace of the caller crosses the bus": async (bench) => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const parent = { get: (key: string) => (key === "traceparent" ? traceparent : undefined) };
    const stop = await bench.service.serve("t.trace", SERVED, async (message) =>
      outText(message.headers.get("traceparent") ?? "none"),
    );
    const inside = await withSpan(
      "test",
      {},
      () => bench.bus.request("t.trace", outText("x"), { timeoutMs: 60_000 }),
      { parent },
    );
    expect(textIn(inside)).toContain("0af7651916cd43dd8448eb211c80319c");
    expect(textIn(await bench.bus.request("t.trace", outText("x"), { timeoutMs: 60_000 }))).toBe("none");
    await stop();
  },

  "a header that would break the protocol line is refused": async (bench) => {
    const evil = { body: new Uint8Array(), headers: { "content-type": "a\r\nPUB x 0" } };
    await expect(bench.bus.request("t.evil", evil, { timeoutMs: 1_000 })).rejects.toThrow(TypeError);
    expect(() => bench.bus.publish("t.evil", { body: new Uint8Array(), headers: { "a:b": "c" } })).toThrow(
      TypeError,
    );
  },

  "headers of any name and value arrive unchanged": async (bench) => {
    const stop = await bench.service.serve("t.headers", SERVED, async (message) => {
      const all = message.headers.keys().map((name) => [name, message.headers.get(name) ?? "missing"]);
      return { body: message.body, headers: Object.fromEntries(all) };
    });
    const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/).map((text) => `x-${text}`);
    const value = fc.string({ unit: "grapheme" }).filter((text) => !/[\r\n]/.test(text));
    await fc.assert(
      fc.asyncProperty(fc.dictionary(name, value), fc.uint8Array(), async (headers, body) => {
        const answer = await bench.bus.request("t.headers", { body, headers }, { timeoutMs: 60_000 });
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
  },

  "each of many concurrent requests gets its own answer": async (bench) => {
    const stop = await bench.service.serve(
      "t.many",
      { ...SERVED, concurrencyMax: 5_000 },
      async (message) => {
        if (message.body.length % 2 === 0) await new Promise(setImmediate);
        return { body: message.body };
      },
    );
    const asked = Array.from({ length: 2_000 }, (_, i) =>
      bench.bus.request("t.many", outText(String(i)), { timeoutMs: 60_000 }).then(textIn),
    );
    expect(await Promise.all(asked)).toEqual(Array.from({ length: 2_000 }, (_, i) => String(i)));
    await stop();
  },
};
