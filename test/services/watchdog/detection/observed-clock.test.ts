// The observed clock: time in which heartbeats could not be received is not silence.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MonitoredOwners } from "../../../../services/watchdog/detection/monitored-owners.ts";
import { ObservedTime, startObservedClock } from "../../../../services/watchdog/detection/observed-clock.ts";
import type { BusStatus } from "../../../../shared/bus/bus.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";

describe("observed time", () => {
  test("follows the clock while it is read often enough", () => {
    const time = new ObservedTime(1_000);
    for (let at = 1_100; at <= 2_000; at += 100) time.tick(at);
    expect(time.now(2_000)).toBe(1_000);
    expect(time.now(2_050)).toBe(1_050);
    expect(time.lostMs).toBe(0);
  });

  test("counts next to nothing of the time in which the process was frozen", () => {
    const time = new ObservedTime(0);
    time.tick(100);
    expect(time.now(60_000)).toBe(450);
    time.tick(60_000);
    expect(time.now(60_000)).toBe(450);
    expect(time.lostMs).toBe(59_550);
  });

  test("counts as much as the pause that was announced", () => {
    const time = new ObservedTime(0);
    time.tick(100, 2_000);
    expect(time.now(60_000)).toBe(2_200);
    time.tick(2_100, 250);
    expect(time.lostMs).toBe(0);
    expect(time.now(60_000)).toBe(2_450);
  });

  test("stands still while it is suspended, and silence counts again from the end of an outage", () => {
    const time = new ObservedTime(0);
    time.tick(100);
    time.suspend(150);
    time.tick(250);
    expect(time.now(30_000)).toBe(150);
    time.resume(30_000, { afterOutage: true });
    expect(time.now(30_050)).toBe(200);
    expect(time.since).toBe(150);
    time.suspend(30_050);
    time.resume(30_100, { afterOutage: false });
    expect(time.since).toBe(150);
  });

  test("the lost time never shrinks, with any fractions of the clock", () => {
    const time = new ObservedTime(0.1);
    let at = 0.1;
    let before = 0;
    for (let i = 0; i < 10_000; i += 1) {
      at += 100.000_1 + i / 7_777;
      time.tick(at);
      expect(time.lostMs).toBeGreaterThanOrEqual(before);
      before = time.lostMs;
    }
    time.tick(at + 5_000);
    expect(time.lostMs - before).toBeCloseTo(4_650);
  });

  test("never goes back, and never counts more than has passed", () => {
    const step = fc.record({
      after: fc.integer({ min: 0, max: 5_000 }),
      what: fc.constantFrom("tick", "suspend", "resume", "outage"),
    });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const time = new ObservedTime(0);
        let at = 0;
        let before = 0;
        for (const { after, what } of steps) {
          at += after;
          if (what === "tick") time.tick(at);
          else if (what === "suspend") time.suspend(at);
          else time.resume(at, { afterOutage: what === "outage" });
          const now = time.now(at);
          expect(now).toBeGreaterThanOrEqual(before);
          expect(now + time.lostMs).toBeLessThanOrEqual(at);
          expect(time.since).toBeLessThanOrEqual(now);
          before = now;
        }
      }),
    );
  });
});

/** One owner, so that the time matters. */
function oneOwner(): MonitoredOwners {
  const owners = new MonitoredOwners();
  const identity = { tenant: "default", task: "t", fence: 1, agentId: "a", agentType: "", silenceMs: 10_000 };
  const times = { heardAt: 0, lastSignAt: 0, leaseUntil: 0, checkedAt: 0, notBefore: 0 };
  owners.add({ ...identity, ...times, isOverdue: false });
  return owners;
}

describe("the observed clock", () => {
  /** A bus that answers when the test lets it. */
  function open(owners = oneOwner()) {
    const clock = manualClock();
    const metrics = createMetrics({ ofProcess: false });
    let say: (status: BusStatus) => void = () => {};
    let isSilent = false;
    let waiting: (() => void)[] = [];
    const bus = {
      onStatus: (handler: typeof say) => {
        say = handler;
        return () => {};
      },
      health: async () => {
        if (isSilent) await new Promise<void>((resolve) => waiting.push(resolve));
        return { ok: true, detail: "" };
      },
    };
    const observed = startObservedClock({ bus, clock, log: testLog, metrics, owners });
    return {
      clock,
      owners,
      observed,
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

  test("stands still while the bus is disconnected, and silence counts from the reconnection", async () => {
    const { clock, observed, status } = open();
    await clock.advance(3_000);
    expect(observed.now()).toBe(3_000);
    expect(observed.since).toBe(0);
    status("disconnected");
    await clock.advance(20_000);
    expect(observed.now()).toBe(3_000);
    status("connected");
    await clock.advance(1_000);
    expect(observed.now()).toBe(4_000);
    expect(observed.since).toBe(3_000);
    await observed.stop();
  });

  test("stands still while the bus is connected and does not answer", async () => {
    const { clock, observed, silence, answer } = open();
    await clock.advance(3_000);
    silence();
    await clock.advance(20_000);
    // Up to the next question and the time to answer it.
    expect(observed.now()).toBeLessThanOrEqual(4_700);
    answer();
    await clock.advance(0);
    expect(observed.since).toBe(observed.now());
    await observed.stop();
  });

  test("wakes rarely without owners, and at once with the first one", async () => {
    const { clock, observed, owners } = open(new MonitoredOwners());
    await clock.advance(20_000);
    expect(observed.now()).toBe(20_000);
    const before = clock.sleeps.length;
    await clock.advance(20_000);
    // The clock, the question whether the bus answers, and the limit of its answer.
    expect(clock.sleeps.length - before).toBeLessThanOrEqual(10 + 2 * 4);
    await clock.advance(500);
    const [first] = oneOwner().all();
    owners.add(first!);
    await clock.advance(0);
    expect(clock.sleeps.slice(-3)).toContain(250);
    await observed.stop();
  });

  test("loses no more than the delay of an answer that is a little late", async () => {
    const { clock, observed, silence, answer } = open();
    await clock.advance(3_000);
    silence();
    await clock.advance(1_800);
    answer();
    await clock.advance(1_000);
    expect(observed.since).toBe(0);
    expect(observed.now()).toBeLessThan(5_800);
    await observed.stop();
  });
});
