// Calls within the maximum age share one result.

import { expect, test } from "vitest";
import { recentResult } from "../../../shared/runtime/recent-result.ts";
import { manualClock } from "../../harness/clock.ts";

test("the work is repeated only when its result is too old", async () => {
  const clock = manualClock();
  let runs = 0;
  const count = recentResult(async () => ++runs, { maxAgeMs: 1_000, clock });
  expect(await Promise.all([count(), count()])).toEqual([1, 1]);
  await clock.advance(1_000);
  expect(await count()).toBe(1);
  await clock.advance(1);
  expect(await count()).toBe(2);
});

test("a failure is shared like a result, and the next work may succeed", async () => {
  const clock = manualClock();
  let runs = 0;
  const fail = recentResult(
    async () => {
      runs += 1;
      if (runs === 1) throw new Error("the bus is unavailable");
      return runs;
    },
    { maxAgeMs: 1_000, clock },
  );
  await expect(fail()).rejects.toThrow("the bus is unavailable");
  await expect(fail()).rejects.toThrow("the bus is unavailable");
  await clock.advance(1_001);
  expect(await fail()).toBe(2);
});
