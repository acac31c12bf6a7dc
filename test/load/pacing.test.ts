import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { arrivals, closedLoop, openLoop } from "./pacing.ts";
import { seededRandom } from "./workload.ts";

describe("arrivals", () => {
  const { times, lanes } = arrivals({ lanes: 1_000, perSecond: 1, seconds: 3 }, seededRandom(1));

  test("are in order, and as many in every tenth of a second", () => {
    expect(times).toEqual(Float64Array.from(times).sort());
    const tenths = new Array<number>(30).fill(0);
    for (const time of times) tenths[Math.floor(time / 100)]! += 1;
    expect(tenths).toEqual(new Array(30).fill(100));
  });

  test("give each lane its own share", () => {
    const counts = new Map<number, number>();
    for (const lane of lanes) counts.set(lane, (counts.get(lane) ?? 0) + 1);
    expect(counts.size).toBe(1_000);
    expect(new Set(counts.values())).toEqual(new Set([3]));
  });
});

describe("the open loop", () => {
  test("counts a stall for everyone who was due in it", async () => {
    const times = Array.from({ length: 50 }, (_, i) => i);
    const stall = 200;
    const { latencies } = await openLoop(times, async (i) => {
      if (i > 0) return;
      const end = performance.now() + stall;
      while (performance.now() < end);
    });
    expect(latencies.length).toBe(50);
    // Due up to 49 ms after the stall began, so each of them waited for most of it.
    for (const latency of latencies) expect(latency).toBeGreaterThan(stall - 50);
  });

  test("does not wait for answers", async () => {
    let open = 0;
    let most = 0;
    await openLoop([0, 1, 2, 3], async () => {
      open += 1;
      most = Math.max(most, open);
      await sleep(100);
      open -= 1;
    });
    expect(most).toBe(4);
  });

  test("fails with the request that fails", async () => {
    const failing = openLoop([0, 1], () => Promise.reject(new Error("refused")));
    await expect(failing).rejects.toThrow("refused");
  });
});

test("the closed loop keeps one request in flight per lane", async () => {
  const open = new Map<number, number>();
  let most = 0;
  const { latencies, perSecond } = await closedLoop({ lanes: 5, seconds: 0.1 }, async (lane) => {
    open.set(lane, (open.get(lane) ?? 0) + 1);
    most = Math.max(most, [...open.values()].reduce((a, b) => a + b));
    expect(open.get(lane)).toBe(1);
    await sleep(5);
    open.set(lane, 0);
  });
  expect(most).toBe(5);
  expect(latencies.length).toBeGreaterThanOrEqual(5);
  expect(perSecond * 0.1).toBeLessThanOrEqual(latencies.length);
});
