// A watchdog that hears too little for long says so to people, once an hour; outages and naps are no such case.

import { describe, expect, test } from "vitest";
import { Blindness, watchBlindness } from "../../../../services/watchdog/detection/observation-alert.ts";
import { startAttention } from "../../../../services/watchdog/detection/observed-clock.ts";
import type { BusStatus, PublishAck } from "../../../../shared/bus/bus.ts";
import { alertText } from "../../../../shared/protocol/alert-text.ts";
import { type ReceivedAlert, readAlert } from "../../../../shared/protocol/alerts.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";

describe("the rule", () => {
  /** One look a second, of which `heardMs` were heard; where the first of `what` were told, by the second. */
  function play(
    seconds: number,
    what: (second: number) => { heardMs: number; isAnew?: boolean; isConnected?: boolean },
  ) {
    const blindness = new Blindness();
    const told: { second: number; heardMs: number }[] = [];
    let [attentiveMs, sinceMs] = [0, 0];
    for (let second = 1; second <= seconds; second += 1) {
      const { heardMs, isAnew = false, isConnected = true } = what(second);
      attentiveMs += heardMs;
      if (isAnew) sinceMs = attentiveMs;
      const found = blindness.look({ atMs: second * 1_000, attentiveMs, sinceMs, isConnected });
      if (found !== null) told.push({ second, heardMs: found });
    }
    return told;
  }

  test("says nothing while all is heard, or more than half", () => {
    expect(play(600, () => ({ heardMs: 1_000 }))).toEqual([]);
    expect(play(600, () => ({ heardMs: 550 }))).toEqual([]);
  });

  test("says how little is heard after two minutes of it", () => {
    const [first, ...others] = play(600, () => ({ heardMs: 100 }));
    expect(first).toEqual({ second: 120, heardMs: 6_000 });
    expect(others.at(-1)).toEqual({ second: 600, heardMs: 6_000 });
  });

  test("time in which everybody began anew again and again was not heard in one piece", () => {
    const [first] = play(600, (second) => ({ heardMs: 900, isAnew: second % 5 === 0 }));
    expect(first?.heardMs).toBeLessThan(5_000);
    expect(play(600, (second) => ({ heardMs: 1_000, isAnew: second % 100 === 0 }))).toEqual([]);
  });

  test("an outage of the bus is none of it, however long it takes; connections that are lost all the time are", () => {
    const outage = (second: number) => second > 100 && second < 400;
    expect(
      play(600, (second) => ({
        heardMs: outage(second) ? 0 : 1_000,
        isAnew: second === 400,
        isConnected: !outage(second),
      })),
    ).toEqual([]);
    const flapping = (second: number) => ({
      heardMs: 300,
      isAnew: second % 10 === 0,
      isConnected: second % 10 !== 0,
    });
    expect(play(600, flapping)).not.toEqual([]);
  });

  test("a machine that slept has heard nothing, and that is over", () => {
    const blindness = new Blindness();
    let atMs = 0;
    for (let second = 0; second < 300; second += 1) {
      atMs += second === 150 ? 8 * 3_600_000 : 1_000;
      const look = { atMs, attentiveMs: second * 1_000, sinceMs: 0, isConnected: true };
      expect(blindness.look(look)).toBeNull();
    }
  });
});

describe("people", () => {
  function open() {
    const clock = manualClock();
    const alerts: ReceivedAlert[] = [];
    let isSilent = false;
    let isFull = false;
    let waiting: (() => void)[] = [];
    const bus = {
      onStatus: (_handler: (status: BusStatus) => void) => {},
      health: async () => {
        if (isSilent) await new Promise<void>((resolve) => waiting.push(resolve));
        return { ok: true, detail: "" };
      },
    };
    const backgroundBus = {
      publishDurable: async (_subject: string, { body }: { body: Uint8Array }): Promise<PublishAck> => {
        if (isFull) throw new Error("the stream is full");
        alerts.push(readAlert(JSON.parse(Buffer.from(body).toString())));
        return { stream: "FLEET_ALERTS", seq: alerts.length, duplicate: false };
      },
    };
    const context = { clock, log: testLog, metrics: createMetrics({ ofProcess: false }) };
    const attention = startAttention({ ...context, bus });
    const stop = watchBlindness({ ...context, bus, backgroundBus, attention, instance: "host-7" });
    return {
      alerts,
      async seconds(count: number) {
        for (let second = 0; second < count; second += 1) await clock.advance(1_000);
      },
      full: (is: boolean) => {
        isFull = is;
      },
      silence: () => {
        isSilent = true;
      },
      answer: () => {
        isSilent = false;
        for (const resolve of waiting.splice(0)) resolve();
      },
      async stop() {
        isSilent = false;
        for (const resolve of waiting.splice(0)) resolve();
        waiting = [];
        await Promise.all([stop(), attention.stop()]);
      },
    };
  }

  test("are told once an hour while it lasts, with what to do, and again when it comes back", async () => {
    const { alerts, seconds, silence, answer, stop } = open();
    await seconds(90);
    expect(alerts).toEqual([]);
    silence();
    await seconds(180);
    expect(alerts).toMatchObject([
      {
        type: "ATTENTION_LOST",
        severity: "critical",
        tenant: "default",
        subject: "unknown",
        data: { watchdog: "host-7", ofMs: 60_000 },
      },
    ]);
    const { what, todo, command } = alertText(alerts[0]!);
    for (const sentence of [what, todo]) expect(sentence).toMatch(/^[A-Z][^<>&]*\.$/);
    expect(what).toContain("host-7");
    expect(command).toBe("fleet status");
    await seconds(3_300);
    expect(alerts).toHaveLength(1);
    await seconds(360);
    expect(alerts).toHaveLength(2);
    expect(alerts[1]?.id).not.toBe(alerts[0]?.id);
    answer();
    await seconds(3_700);
    expect(alerts).toHaveLength(2);
    await stop();
  });

  test("are told as soon as that can be done", async () => {
    const { alerts, seconds, silence, full, stop } = open();
    full(true);
    silence();
    await seconds(300);
    expect(alerts).toEqual([]);
    full(false);
    await seconds(2);
    expect(alerts).toHaveLength(1);
    await stop();
  });
});
