// The time that a watchdog pays attention in: what it could not hear was not silence.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AttentiveTime, startAttention } from "../../../../services/watchdog/detection/observed-clock.ts";
import type { BusStatus } from "../../../../shared/bus/bus.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";

describe("the arithmetic", () => {
  test("goes on with the clock while it is looked at often enough", () => {
    const time = new AttentiveTime(1_000);
    for (let at = 1_100; at <= 2_000; at += 100) time.tick(at);
    expect(time.now(2_000)).toBe(1_000);
    expect(time.now(2_050)).toBe(1_050);
    expect(time.lost).toBe(0);
  });

  test("a process that was frozen counts next to nothing of it", () => {
    const time = new AttentiveTime(0);
    time.tick(100);
    expect(time.now(60_000)).toBe(300);
    time.tick(60_000);
    expect(time.now(60_000)).toBe(300);
    expect(time.lost).toBe(59_700);
  });

  test("stands still while nothing can be heard, and after that everybody may have the whole time again", () => {
    const time = new AttentiveTime(0);
    time.tick(100);
    time.blind(150);
    time.tick(250);
    expect(time.now(30_000)).toBe(150);
    time.see(30_000, { anew: true });
    expect(time.now(30_050)).toBe(200);
    expect(time.since).toBe(150);
    time.blind(30_050);
    time.see(30_100, { anew: false });
    expect(time.since).toBe(150);
  });

  test("never goes back, and never counts more than went by", () => {
    const step = fc.record({
      after: fc.integer({ min: 0, max: 5_000 }),
      what: fc.constantFrom("tick", "blind", "see", "anew"),
    });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const time = new AttentiveTime(0);
        let at = 0;
        let before = 0;
        for (const { after, what } of steps) {
          at += after;
          if (what === "tick") time.tick(at);
          else if (what === "blind") time.blind(at);
          else time.see(at, { anew: what === "anew" });
          const now = time.now(at);
          expect(now).toBeGreaterThanOrEqual(before);
          expect(now + time.lost).toBeLessThanOrEqual(at);
          expect(time.since).toBeLessThanOrEqual(now);
          before = now;
        }
      }),
    );
  });
});

describe("with a bus", () => {
  /** A bus that answers when it is told to: what this asks of one, and nothing else. */
  function open() {
    const clock = manualClock();
    const metrics = createMetrics({ ofProcess: false });
    let say: (status: BusStatus) => void = () => {};
    let isSilent = false;
    let waiting: (() => void)[] = [];
    const bus = {
      onStatus: (handler: typeof say) => {
        say = handler;
      },
      health: async () => {
        if (isSilent) await new Promise<void>((resolve) => waiting.push(resolve));
        return { ok: true, detail: "" };
      },
    };
    const attention = startAttention({ bus, clock, log: testLog, metrics });
    return {
      clock,
      attention,
      status: (status: BusStatus) => say(status),
      silence: () => {
        isSilent = true;
      },
      answer: () => {
        isSilent = false;
        for (const resolve of waiting) resolve();
        waiting = [];
      },
    };
  }

  test("time stands still while it is disconnected, and silence counts from the reconnection on", async () => {
    const { clock, attention, status } = open();
    await clock.advance(3_000);
    expect(attention.now()).toBe(3_000);
    expect(attention.since).toBe(0);
    status("disconnected");
    await clock.advance(20_000);
    expect(attention.now()).toBe(3_000);
    status("connected");
    await clock.advance(1_000);
    expect(attention.now()).toBe(4_000);
    expect(attention.since).toBe(3_000);
    await attention.stop();
  });

  test("a bus that is connected and does not answer is away as well", async () => {
    const { clock, attention, silence, answer } = open();
    await clock.advance(3_000);
    silence();
    await clock.advance(20_000);
    // At most until it was asked the next time, and then had its time to answer.
    expect(attention.now()).toBeLessThanOrEqual(4_700);
    answer();
    await clock.advance(0);
    expect(attention.since).toBe(attention.now());
    await attention.stop();
  });

  test("an answer that is a little late costs that time and nothing more", async () => {
    const { clock, attention, silence, answer } = open();
    await clock.advance(3_000);
    silence();
    await clock.advance(1_800);
    answer();
    await clock.advance(1_000);
    expect(attention.since).toBe(0);
    expect(attention.now()).toBeLessThan(5_800);
    await attention.stop();
  });
});
