/** The release of unused memory: once after each growth, and only in an idle thread. */
import { getHeapStatistics } from "node:v8";
import { describe, expect, test } from "vitest";
import { ownMemory, startMemoryRelease } from "../../../../shared/runtime/process/memory-release.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";

const MB = 1024 * 1024;
const LOOK_MS = 5_000;

describe("unused memory", () => {
  async function released(utilizations: readonly number[], heapMb: readonly number[]): Promise<boolean[]> {
    const clock = manualClock();
    const [busy, heap] = [utilizations.values(), heapMb.values()];
    let bytes = 0;
    let collections = 0;
    const memory = {
      utilization: () => busy.next().value ?? 1,
      heapBytes: () => bytes,
      collect: () => {
        collections += 1;
        bytes = 40 * MB;
      },
    };
    const looks: boolean[] = [];
    bytes = heap.next().value! * MB;
    const stop = startMemoryRelease({ clock, log: testLog }, memory);
    for (const _ of utilizations) {
      await clock.sleeping(1);
      looks.push(collections > 0);
      collections = 0;
      bytes = (heap.next().value ?? 0) * MB;
      await clock.advance(LOOK_MS);
    }
    await stop();
    return looks;
  }

  const quiet = (looks: number, percent = 1) => Array<number>(looks).fill(percent / 100);
  const heap = (...mb: readonly number[]) => [...Array<number>(11).fill(120), ...mb];

  test("is released after a minute of idleness, and again after each growth", async () => {
    const looks = await released(quiet(15), heap(120, 40, 50, 60));
    expect(looks).toEqual([...Array(11).fill(false), true, false, false, true]);
  });

  test("stays in a thread that works", async () => {
    expect(await released(quiet(15, 11), heap(120, 120, 120, 120))).not.toContain(true);
  });

  test("stays between two bursts of work", async () => {
    const looks = await released([...quiet(11), 0.5, ...quiet(12)], Array(24).fill(120));
    expect(looks).toEqual([...Array(23).fill(false), true]);
  });
});

test("a collection returns the memory of dropped objects", () => {
  const { collect } = ownMemory();
  collect();
  const before = getHeapStatistics().total_heap_size;
  let lists: number[][] | null = Array.from({ length: 64 }, () =>
    Array.from({ length: 100_000 }, Math.random),
  );
  expect(lists.length).toBe(64);
  const grown = getHeapStatistics().total_heap_size;
  expect(grown).toBeGreaterThan(before + 40 * MB);
  lists = null;
  collect();
  expect(getHeapStatistics().total_heap_size).toBeLessThan(grown - 40 * MB);
});
