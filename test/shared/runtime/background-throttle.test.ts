// Background work rests in proportion to its steps, never to its waits for new work.

import { expect, test } from "vitest";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";

const { signal } = new AbortController();
const SAMPLE_MS = 5;

/** A clock of which only the rests of the throttle are real: the thread is busy during the first of each pair. */
function busyThread() {
  const rests: number[] = [];
  let nowMs = 0;
  const clock = {
    ...systemClock,
    monotonic: () => nowMs,
    sleep: async (ms: number) => {
      rests.push(ms);
      for (const endMs = performance.now() + SAMPLE_MS; performance.now() < endMs; );
    },
  };
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { clock, rests, pass };
}

test("on a busy thread the rest is as long as four steps", async () => {
  const { clock, rests, pass } = busyThread();
  const throttle = createBackgroundThrottle(clock);
  await throttle.step(async () => pass(20), signal);
  await throttle.step(async () => pass(0), signal);
  expect(rests).toEqual([SAMPLE_MS, 0, SAMPLE_MS, 80]);
});

test("a wait between two steps does not make the rest longer", async () => {
  const { clock, rests, pass } = busyThread();
  const throttle = createBackgroundThrottle(clock);
  await throttle.step(async () => pass(20), signal);
  pass(1_000);
  await throttle.step(async () => pass(0), signal);
  expect(rests.at(-1)).toBe(80);
});

test("work that waited for longer than any rest begins at once", async () => {
  const { clock, rests, pass } = busyThread();
  const throttle = createBackgroundThrottle(clock);
  await throttle.step(async () => pass(20), signal);
  pass(1_001);
  await throttle.step(async () => pass(0), signal);
  expect(rests).toEqual([SAMPLE_MS, 0]);
  await throttle.step(async () => {}, signal);
  expect(rests).toHaveLength(4);
});

test("a rest is never longer than a second", async () => {
  const { clock, rests, pass } = busyThread();
  const throttle = createBackgroundThrottle(clock);
  await throttle.step(async () => pass(3_000), signal);
  await throttle.step(async () => pass(0), signal);
  expect(rests.at(-1)).toBe(1_000);
});

test("a step that fails counts as a step", async () => {
  const { clock, rests, pass } = busyThread();
  const throttle = createBackgroundThrottle(clock);
  const failing = throttle.step(async () => {
    pass(20);
    throw new Error("the step failed");
  }, signal);
  await expect(failing).rejects.toThrow("the step failed");
  await throttle.step(async () => pass(0), signal);
  expect(rests.at(-1)).toBe(80);
});

test("work that must keep up rests for fewer steps", async () => {
  const { clock, rests, pass } = busyThread();
  const throttle = createBackgroundThrottle(clock, { pauseFactor: () => 0.5 });
  await throttle.step(async () => pass(20), signal);
  await throttle.step(async () => pass(0), signal);
  expect(rests.at(-1)).toBe(10);
});
