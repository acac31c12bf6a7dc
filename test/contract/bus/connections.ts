/** The life of a connection: lost and restored with the server, hanging, closed; and its subscriptions. */
import { expect } from "vitest";
import { type Bus, BusError, type BusStatus, type Message } from "../../../shared/bus/bus.ts";
import { type ContractCases, collector, failureKind, outText, SERVED, textIn } from "./bench.ts";

const body = new Uint8Array();

function nextStatus(bus: Bus, wanted: BusStatus): Promise<void> {
  return new Promise((resolve) => {
    bus.onStatus((status) => {
      if (status === wanted) resolve();
    });
  });
}

export const connectionCases: ContractCases = {
  "a kill -9 of the server fails open calls at once, and all works again after its restart": async (
    bench,
  ) => {
    const [caller, service] = [await bench.connect("caller"), await bench.connect("service")];
    const asked = Promise.withResolvers<void>();
    let held = true;
    await service.serve("t.held", SERVED, async (message) => {
      asked.resolve();
      if (held) await new Promise(() => {});
      return { body: message.body };
    });
    const statuses: BusStatus[] = [];
    const stopWatching = caller.onStatus((status) => statuses.push(status));
    const pending = failureKind(caller.request("t.held", { body }, { timeoutMs: 60_000 }));
    await asked.promise;
    held = false;
    const disconnected = [nextStatus(caller, "disconnected"), nextStatus(service, "disconnected")];
    await bench.server.kill();
    expect(await pending).toBe("timeout");
    await Promise.all(disconnected);
    expect(await failureKind(caller.request("t.held", { body }, { timeoutMs: 1_000 }))).toBe("unavailable");
    expect((await caller.health({ timeoutMs: 1_000 })).ok).toBe(false);
    const back = [nextStatus(caller, "connected"), nextStatus(service, "connected")];
    await bench.server.restart();
    await Promise.all(back);
    await caller.request("t.held", { body }, { timeoutMs: 60_000 });
    expect(await caller.health({ timeoutMs: 60_000 })).toEqual({
      ok: true,
      detail: `NATS ${caller.serverVersion}`,
    });
    stopWatching();
    expect([statuses[0], statuses.at(-1)]).toEqual(["disconnected", "connected"]);
    expect(statuses).toContain("reconnecting");
    await bench.recovered();
  },

  "a server that hangs is reported as a timeout, and then as disconnected": async (bench) => {
    const bus = await bench.connect("hang");
    const disconnected = nextStatus(bus, "disconnected");
    bench.server.pause();
    const health = await bus.health({ timeoutMs: 200 });
    await disconnected;
    const back = nextStatus(bus, "connected");
    bench.server.resume();
    await back;
    expect(health).toEqual({ ok: false, detail: "no answer in time" });
    await bench.recovered();
  },

  "after close every call fails with `closed`, and close ends open services": async (bench) => {
    const bus = await bench.connect("closing");
    await bus.serve("t.never", SERVED, () => new Promise(() => {}));
    const pending = failureKind(bus.request("t.never", { body }, { timeoutMs: 60_000 }));
    await bus.close({ drainMs: 100 });
    await bus.close();
    expect(["closed", "timeout"]).toContain(await pending);
    expect(await failureKind(bus.request("t.x", { body }, { timeoutMs: 100 }))).toBe("closed");
    expect(await failureKind(bus.serve("t.x", SERVED, async (m) => ({ body: m.body })))).toBe("closed");
    expect(await failureKind(bus.subscribe("t.x", () => {}))).toBe("closed");
    expect(() => bus.publish("t.x", { body })).toThrow(BusError);
  },

  "close sends what was published, and answers the requests that have arrived": async (bench) => {
    const bus = await bench.connect("draining");
    const seen = collector(20);
    const stop = await bench.bus.subscribe("t.drained", (message) => seen.add(textIn(message)));
    const begun = Promise.withResolvers<void>();
    await bus.serve("t.draining", SERVED, async () => {
      begun.resolve();
      await new Promise((resolve) => setTimeout(resolve, 50));
      return outText("done");
    });
    const asked = bench.bus.request("t.draining", { body }, { timeoutMs: 60_000 });
    await begun.promise;
    for (let n = 0; n < 20; n += 1) bus.publish("t.drained", outText(String(n)));
    await bus.close();
    expect(textIn(await asked)).toBe("done");
    await seen.done;
    expect(seen.seen).toEqual(Array.from({ length: 20 }, (_, n) => String(n)));
    await stop();
  },

  "subscriptions match by tokens, and get the messages of a connection in order": async (bench) => {
    const found = new Map<string, string[]>();
    const patterns = ["t.sub.*.b", "t.sub.>", "t.*.a.b", "t.sub.a.b", "t.sub.a", "t.sub.*", ">"];
    const stops = await Promise.all(
      patterns.map((pattern) =>
        bench.service.subscribe(pattern, ({ subject }: Message) => {
          if (subject.startsWith("t.sub.")) found.set(pattern, [...(found.get(pattern) ?? []), subject]);
        }),
      ),
    );
    const end = Promise.withResolvers<void>();
    const stopEnd = await bench.service.subscribe("t.end", () => end.resolve());
    for (const subject of ["t.sub.a.b", "t.sub.a", "t.sub.c.b", "t.sub.a.b.c"])
      bench.bus.publish(subject, { body });
    bench.bus.publish("t.end", { body });
    await end.promise;
    for (const stop of [...stops, stopEnd]) await stop();
    expect(Object.fromEntries(found)).toEqual({
      "t.sub.*.b": ["t.sub.a.b", "t.sub.c.b"],
      "t.sub.>": ["t.sub.a.b", "t.sub.a", "t.sub.c.b", "t.sub.a.b.c"],
      "t.*.a.b": ["t.sub.a.b"],
      "t.sub.a.b": ["t.sub.a.b"],
      "t.sub.a": ["t.sub.a"],
      "t.sub.*": ["t.sub.a"],
      ">": ["t.sub.a.b", "t.sub.a", "t.sub.c.b", "t.sub.a.b.c"],
    });
  },

  "each request reaches one service of a queue group, and every group": async (bench) => {
    const counts = { one: 0, two: 0, other: 0 };
    const count = (name: keyof typeof counts) => async () => {
      counts[name] += 1;
      return undefined;
    };
    const [one, two] = [await bench.connect("one"), await bench.connect("two")];
    const stops = [
      await one.serve("t.group", SERVED, count("one")),
      await two.serve("t.group", SERVED, count("two")),
      await two.serve("t.group", { ...SERVED, queue: "other" }, count("other")),
      await bench.service.serve("t.group", { ...SERVED, queue: "last" }, async () => outText("")),
    ];
    for (let n = 0; n < 60; n += 1) await bench.bus.request("t.group", { body }, { timeoutMs: 60_000 });
    for (const stop of stops) await stop();
    expect([counts.one + counts.two, counts.other]).toEqual([60, 60]);
    expect(Math.min(counts.one, counts.two)).toBeGreaterThan(0);
  },
};
