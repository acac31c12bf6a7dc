import { expect, test } from "vitest";
import { createThreadCount, SAMPLE_MS } from "../../../services/standalone/thread-count.ts";

/** What is wanted after each sample; the threads at work follow it. */
function sized(
  countMax: number,
  load: (count: number, second: number) => number[],
  seconds: number,
): number[] {
  const threadCount = createThreadCount(countMax);
  const wanted: number[] = [];
  let count = 1;
  for (let ms = 0; ms <= seconds * 1_000; ms += SAMPLE_MS) {
    count = threadCount.sample(load(count, ms / 1_000), ms);
    wanted.push(count);
  }
  return wanted;
}

const all = (share: number) => (count: number) => Array.from({ length: count }, () => share);

test("one thread works as long as it can keep up", () => {
  expect(new Set(sized(4, all(0.95), 60))).toEqual(new Set([1]));
});

test("a moment of full work calls nobody; two seconds of it do", () => {
  expect(new Set(sized(4, (count, s) => all(s % 2 < 1 ? 1 : 0.5)(count), 60))).toEqual(new Set([1]));
  expect(sized(4, all(1), 2).at(-1)).toBe(2);
});

test("they become as many as allowed, and no more", () => {
  expect(sized(3, all(1), 60).at(-1)).toBe(3);
  expect(sized(1, all(1), 60).at(-1)).toBe(1);
});

test("another one joins only when all are full", () => {
  const uneven = (count: number) => [1, ...all(0.5)(count - 1)];
  expect(sized(4, uneven, 60).at(-1)).toBe(2);
});

test("when the load is over they rest one after the other, down to one", () => {
  const wanted = sized(3, (count, s) => all(s < 20 ? 1 : 0.02)(count), 60);
  expect(Math.max(...wanted)).toBe(3);
  expect(wanted.at(-1)).toBe(1);
  const changes = wanted.flatMap((count, i) => (i > 0 && count !== wanted[i - 1] ? [count] : []));
  expect(changes).toEqual([2, 3, 2, 1]);
});

test("a load that two threads share does not make them come and go", () => {
  // The same work takes 1.35 times as much time in two threads as in one.
  for (const work of [1.05, 1.2, 1.4]) {
    const load = (count: number) => all(Math.min(1, (count === 1 ? work : work * 1.35) / count))(count);
    const wanted = sized(2, load, 120);
    expect(
      wanted.filter((count, i) => i > 0 && count !== wanted[i - 1]),
      String(work),
    ).toEqual([2]);
  }
});
