import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { seededRandom } from "../workload.ts";
import { arrivals, closedLoop, openLoop } from "./request-rate.ts";

// Time moves only as the timers of a test fire, so a loaded machine cannot change a count.
beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function finished<T>(loop: Promise<T>): Promise<T> {
  await vi.runAllTimersAsync();
  return loop;
}

describe("arrivals", () => {
  const { times, callers } = arrivals({ callers: 1_000, perSecond: 1, seconds: 3 }, seededRandom(1));

  test("are in order, with the same number in every tenth of a second", () => {
    expect(times).toEqual(Float64Array.from(times).sort());
    const tenths = new Array<number>(30).fill(0);
    for (const time of times) tenths[Math.floor(time / 100)]! += 1;
    expect(tenths).toEqual(new Array(30).fill(100));
  });

  test("give each caller its own share", () => {
    const counts = new Map<number, number>();
    for (const caller of callers) counts.set(caller, (counts.get(caller) ?? 0) + 1);
    expect(counts.size).toBe(1_000);
    expect(new Set(counts.values())).toEqual(new Set([3]));
  });
});

describe("the open loop", () => {
  test("counts a stall for every request that was due in it", async () => {
    const times = Array.from({ length: 50 }, (_, i) => i);
    const stall = 200;
    const { latencies, lateness } = await finished(
      openLoop(times, async (i) => {
        if (i === 0) vi.advanceTimersByTime(stall);
      }),
    );
    expect(latencies.length).toBe(50);
    // The last request is due 49 ms after the stall began, so each of them waited for most of it.
    for (const latency of latencies) expect(latency).toBeGreaterThan(stall - 50);
    expect(Math.max(...lateness)).toBeGreaterThan(stall - 50);
  });

  test("does not wait for answers", async () => {
    let open = 0;
    let most = 0;
    await finished(
      openLoop([0, 1, 2, 3], async () => {
        open += 1;
        most = Math.max(most, open);
        await sleep(100);
        open -= 1;
      }),
    );
    expect(most).toBe(4);
  });

  test("keeps a failure and continues", async () => {
    const refused = new Error("refused");
    const { latencies, failures } = await finished(
      openLoop([0, 1, 2], async (i) => {
        if (i === 1) throw refused;
      }),
    );
    expect(failures).toEqual([refused]);
    expect(latencies.length).toBe(3);
  });
});

describe("the closed loop", () => {
  test("keeps one request in flight per caller", async () => {
    const open = new Set<number>();
    let most = 0;
    const loop = closedLoop({ callers: 5, warmUpSeconds: 0, seconds: 0.1 }, async (caller) => {
      expect(open.has(caller)).toBe(false);
      open.add(caller);
      most = Math.max(most, open.size);
      await sleep(5);
      open.delete(caller);
    });
    await finished(loop);
    expect(most).toBe(5);
    expect(open.size).toBe(0);
  });

  test("counts only the requests that end in its time", async () => {
    const time = { callers: 2, warmUpSeconds: 0.1, seconds: 0.1 };
    const { latencies, perSecond, succeeded } = await finished(closedLoop(time, () => sleep(7)));
    // Each caller's requests end at 7, 14, … 203 ms; those from 105 to 196 ms count.
    expect(latencies).toEqual(Array(28).fill(7));
    expect(succeeded).toBe(58);
    expect(perSecond).toBe(280);
  });

  test("does not count a failed request as done", async () => {
    const loop = closedLoop({ callers: 1, warmUpSeconds: 0, seconds: 0.05 }, async () => {
      await sleep(5);
      throw new Error("refused");
    });
    const { latencies, failures, perSecond, succeeded } = await finished(loop);
    expect(perSecond).toBe(0);
    expect(succeeded).toBe(0);
    expect(failures.length).toBe(latencies.length);
  });
});
