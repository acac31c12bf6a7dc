// The worker and the ticker: they continue after every failure, they do not spin, and they stop at once.

import { expect, test } from "vitest";
import { createWake } from "../../../shared/runtime/clock.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { runTicker } from "../../../shared/runtime/ticker.ts";
import { runWorker, type WorkerOptions } from "../../../shared/runtime/worker.ts";
import { manualClock } from "../../harness/clock.ts";

function setup() {
  const lines: { msg: string; level: string }[] = [];
  const log = createLogger({
    service: "test",
    destination: { write: (line) => lines.push(JSON.parse(line)) },
  });
  const abort = new AbortController();
  return { clock: manualClock(), abort, signal: abort.signal, log, lines };
}

function worker<T>(
  of: ReturnType<typeof setup>,
  options: Pick<WorkerOptions<T>, "take" | "handle"> & Partial<WorkerOptions<T>>,
) {
  const { clock, signal, log } = of;
  return runWorker<T>({ name: "test", idle: { ms: 60_000 }, clock, signal, log, ...options });
}

test("batches are handled in order without pause, then the worker sleeps until the next poll", async () => {
  const of = setup();
  const batches = [["a", "b"], ["c"], [], ["d"], []];
  const handled: string[] = [];
  const done = worker<string>(of, {
    take: async () => batches.shift() ?? [],
    handle: async (item) => void handled.push(item),
  });
  await of.clock.sleeping();
  expect(handled).toEqual(["a", "b", "c"]);
  await of.clock.advance(60_000);
  expect(handled).toEqual(["a", "b", "c", "d"]);
  of.abort.abort();
  await done;
});

test("a hint cuts the sleep short, even one that arrives while the worker is busy", async () => {
  const of = setup();
  const wake = createWake();
  let takes = 0;
  const take = async () => {
    takes += 1;
    if (takes === 1) wake.notify(); // arrives after the poll and before the sleep
    return [];
  };
  const done = worker(of, { take, handle: async () => {}, idle: { ms: 60_000, wake } });
  await of.clock.advance(0);
  expect(takes).toBe(2);
  wake.notify();
  await of.clock.advance(0);
  expect(takes).toBe(3);
  of.abort.abort();
  await done;
});

test("an outage costs few tries with growing pauses, and after it the worker polls as before", async () => {
  const of = setup();
  let takes = 0;
  let down = true;
  const take = async () => {
    takes += 1;
    if (down) throw new Error("the store is unavailable");
    return [];
  };
  const done = worker(of, { take, handle: async () => {}, backoff: { baseMs: 100, maxMs: 10_000 } });
  await of.clock.advance(60_000);
  expect(takes).toBeGreaterThan(5);
  expect(takes).toBeLessThan(25);
  for (const [i, ms] of of.clock.sleeps.entries())
    expect(ms).toBeGreaterThanOrEqual(Math.min(10_000, 100 * 2 ** i) / 2);
  expect(of.lines.filter((line) => line.level === "warn").length).toBe(takes);
  down = false;
  await of.clock.advance(10_000);
  expect(of.clock.sleeps.at(-1)).toBe(60_000);
  of.abort.abort();
  await done;
});

test("one bad item does not prevent the handling of the others", async () => {
  const of = setup();
  const batches = [[1, 2, 3]];
  const handled: number[] = [];
  const done = worker<number>(of, {
    take: async () => batches.shift() ?? [],
    handle: async (item) => {
      handled.push(item);
      if (item < 3) throw new Error("bad item");
    },
  });
  await of.clock.sleeping();
  expect(handled).toEqual([1, 2, 3]);
  expect(of.lines.map((line) => line.msg)).toEqual([
    "another item of the batch failed",
    "worker iteration failed",
  ]);
  of.abort.abort();
  await done;
});

test("on stop the current item is finished and the others are given back", async () => {
  const of = setup();
  const seen: string[] = [];
  await worker<number>(of, {
    take: async () => [1, 2, 3],
    handle: async (item) => {
      of.abort.abort();
      await new Promise(setImmediate);
      seen.push(`handled ${item}`);
    },
    release: async (item) => void seen.push(`released ${item}`),
  });
  expect(seen).toEqual(["handled 1", "released 2", "released 3"]);
});

test("the number of concurrent items is limited", async () => {
  const of = setup();
  let running = 0;
  let most = 0;
  const batches = [Array.from({ length: 20 }, (_, i) => i)];
  const done = worker<number>(of, {
    take: async () => batches.shift() ?? [],
    handle: async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise(setImmediate);
      running -= 1;
    },
    concurrency: 4,
  });
  await of.clock.sleeping();
  expect([most, running]).toEqual([4, 0]);
  of.abort.abort();
  await done;
});

test("a ticker never overlaps itself, survives errors and stops while asleep", async () => {
  const of = setup();
  const starts: number[] = [];
  let running = 0;
  const done = runTicker({
    name: "test",
    everyMs: 1_000,
    signal: of.signal,
    clock: of.clock,
    log: of.log,
    run: async () => {
      running += 1;
      expect(running).toBe(1);
      starts.push(of.clock.monotonic());
      await of.clock.sleep(starts.length === 2 ? 5_000 : 0);
      running -= 1;
      if (starts.length === 1) throw new Error("first run fails");
    },
  });
  await of.clock.advance(8_500);
  expect(starts).toEqual([0, 1_000, 7_000, 8_000]);
  expect(of.lines.map((line) => line.msg)).toEqual(["ticker run failed"]);
  of.abort.abort();
  await done;
});

test("jitter spreads the pauses within its fraction", async () => {
  const of = setup();
  const { clock, signal, log } = of;
  const done = runTicker({
    name: "test",
    everyMs: 1_000,
    jitter: 0.2,
    run: async () => {},
    signal,
    clock,
    log,
  });
  await clock.advance(100_000);
  expect(Math.min(...clock.sleeps)).toBeGreaterThanOrEqual(800);
  expect(Math.max(...clock.sleeps)).toBeLessThanOrEqual(1_200);
  expect(new Set(clock.sleeps).size).toBeGreaterThan(10);
  of.abort.abort();
  await done;
});
