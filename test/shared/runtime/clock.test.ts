// The rules of waiting, tested on the system clock and on the manual one.

import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { type Clock, createWake, systemClock } from "../../../shared/runtime/clock.ts";
import { manualClock } from "../../harness/clock.ts";

/** So long that a test which waits for it fails by its own timeout. */
const hour = 3_600_000;

describe.each<[string, () => Clock]>([
  ["system", () => systemClock],
  ["manual", () => manualClock()],
])("%s clock", (_, open) => {
  test("an aborted sleep ends early and does not reject", async () => {
    const clock = open();
    const abort = new AbortController();
    const slept = clock.sleep(hour, abort.signal);
    abort.abort();
    await slept;
    await clock.sleep(hour, abort.signal);
  });

  test("a notification ends every current wait", async () => {
    const clock = open();
    const wake = createWake();
    const waits = [clock.wait(hour, wake), clock.wait(hour, wake)];
    wake.notify();
    await Promise.all(waits);
  });

  test("one notification without a wait is remembered, once", async () => {
    const clock = open();
    const wake = createWake();
    const abort = new AbortController();
    wake.notify();
    wake.notify();
    await clock.wait(hour, wake);
    let ended = false;
    const second = clock.wait(hour, wake, abort.signal).then(() => {
      ended = true;
    });
    await new Promise(setImmediate);
    expect(ended).toBe(false);
    abort.abort();
    await second;
  });

  test("a wait that ended for another reason consumes no notification", async () => {
    const clock = open();
    const wake = createWake();
    await clock.wait(hour, wake, AbortSignal.abort());
    const abort = new AbortController();
    const waited = clock.wait(hour, wake, abort.signal);
    abort.abort();
    await waited;
    wake.notify();
    await clock.wait(hour, wake);
  });
});

test("a delay beyond the range of a timer neither fires at once nor spins", async () => {
  const warnings: string[] = [];
  const note = (warning: Error) => warnings.push(warning.name);
  process.on("warning", note);
  const abort = new AbortController();
  const slept = systemClock.sleep(2 ** 31 + 5, abort.signal).then(() => "ended");
  const first = await Promise.race([slept, systemClock.sleep(5).then(() => "still asleep")]);
  abort.abort();
  await slept;
  process.off("warning", note);
  expect([first, warnings]).toEqual(["still asleep", []]);
});

test("a long-lived signal accumulates no listeners of ended sleeps", async () => {
  const { signal } = new AbortController();
  await systemClock.sleep(0, signal);
  await systemClock.sleep(0, signal);
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

describe("the manual clock", () => {
  test("sleeps end in order, at their time, and may start new ones", async () => {
    const clock = manualClock(1_000);
    const seen: [string, number][] = [];
    const sleeper = async (name: string, ...naps: number[]) => {
      for (const ms of naps) {
        await clock.sleep(ms);
        seen.push([name, clock.now()]);
      }
    };
    const both = [sleeper("a", 30, 40), sleeper("b", 10, 10, 100)];
    await clock.advance(70);
    expect(seen).toEqual([
      ["b", 1_010],
      ["b", 1_020],
      ["a", 1_030],
      ["a", 1_070],
    ]);
    expect(clock.sleepers).toBe(1);
    await clock.advance(50);
    await Promise.all(both);
    expect(clock.monotonic()).toBe(120);
  });

  test("wall time may jump, monotonic time may not", () => {
    const clock = manualClock(1_000);
    clock.skew(-500);
    expect([clock.now(), clock.monotonic()]).toEqual([500, 0]);
  });
});
