import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../workload.ts";
import { arrivals, closedLoop, openLoop } from "./request-rate.ts";

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

  test("keeps what failed, and goes on", async () => {
    const refused = new Error("refused");
    const { latencies, failures } = await openLoop([0, 1, 2], async (i) => {
      if (i === 1) throw refused;
    });
    expect(failures).toEqual([refused]);
    expect(latencies.length).toBe(3);
  });
});

describe("the closed loop", () => {
  test("keeps one request in flight per lane", async () => {
    const open = new Set<number>();
    let most = 0;
    await closedLoop({ lanes: 5, warmUpSeconds: 0, seconds: 0.1 }, async (lane) => {
      expect(open.has(lane)).toBe(false);
      open.add(lane);
      most = Math.max(most, open.size);
      await sleep(5);
      open.delete(lane);
    });
    expect(most).toBe(5);
    expect(open.size).toBe(0);
  });

  test("counts nothing that ends before or after its time", async () => {
    let sent = 0;
    const time = { lanes: 2, warmUpSeconds: 0.1, seconds: 0.1 };
    const { latencies, perSecond, succeeded } = await closedLoop(time, async () => {
      sent += 1;
      await sleep(5);
    });
    expect(latencies.length).toBeGreaterThan(0);
    // Two lanes were busy before that time, and each has one request that ends after it.
    expect(latencies.length).toBeLessThanOrEqual(sent - 4);
    expect(succeeded).toBe(sent);
    expect(perSecond).toBeCloseTo(latencies.length / time.seconds);
  });

  test("does not count what failed as done", async () => {
    const time = { lanes: 1, warmUpSeconds: 0, seconds: 0.05 };
    const { latencies, failures, perSecond, succeeded } = await closedLoop(time, async () => {
      await sleep(5);
      throw new Error("refused");
    });
    expect(perSecond).toBe(0);
    expect(succeeded).toBe(0);
    expect(failures.length).toBe(latencies.length);
  });
});
