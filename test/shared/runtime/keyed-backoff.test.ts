import { expect, test } from "vitest";
import { KeepingBack } from "../../../shared/runtime/keyed-backoff.ts";

test("who failed is kept back longer from failure to failure, and others are not", () => {
  let nowMs = 0;
  const failures = new KeepingBack({ now: () => nowMs });
  const pauses = Array.from({ length: 8 }, () => {
    failures.failed("one");
    const begin = nowMs;
    while (failures.has("one")) nowMs += 10;
    return nowMs - begin;
  });
  expect(pauses[0]).toBeGreaterThan(0);
  expect(pauses[3]).toBeGreaterThan(pauses[0]!);
  expect(pauses[7]).toBeLessThanOrEqual(30_000);
  failures.failed("one");
  expect([failures.has("one"), failures.has("other")]).toEqual([true, false]);
});

test("after a success the failures before are forgotten", () => {
  const failures = new KeepingBack({ now: () => 0 });
  expect([failures.failed("one"), failures.failed("one")]).toEqual([1, 2]);
  failures.succeeded("one");
  expect([failures.has("one"), failures.failed("one")]).toEqual([false, 1]);
});
