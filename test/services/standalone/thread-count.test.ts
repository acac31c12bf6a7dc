import { expect, test } from "vitest";
import { createThreadCount, SAMPLE_MS } from "../../../services/standalone/thread-count.ts";

/** The wanted number of threads after each sample, which the working threads follow. */
function counts(
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

test("one thread works as long as it keeps up", () => {
  expect(new Set(counts(4, all(0.95), 60))).toEqual(new Set([1]));
});

test("a second of saturation adds no thread; two seconds do", () => {
  expect(new Set(counts(4, (count, s) => all(s % 2 < 1 ? 1 : 0.5)(count), 60))).toEqual(new Set([1]));
  expect(counts(4, all(1), 2).at(-1)).toBe(2);
});

test("the number of threads grows to the limit and not beyond", () => {
  expect(counts(3, all(1), 60).at(-1)).toBe(3);
  expect(counts(1, all(1), 60).at(-1)).toBe(1);
});

test("another thread joins only when all are saturated", () => {
  const uneven = (count: number) => [1, ...all(0.5)(count - 1)];
  expect(counts(4, uneven, 60).at(-1)).toBe(2);
});

test("after the load, threads rest one after the other, down to one", () => {
  const wanted = counts(3, (count, s) => all(s < 20 ? 1 : 0.02)(count), 60);
  expect(Math.max(...wanted)).toBe(3);
  expect(wanted.at(-1)).toBe(1);
  const changes = wanted.flatMap((count, i) => (i > 0 && count !== wanted[i - 1] ? [count] : []));
  expect(changes).toEqual([2, 3, 2, 1]);
});

test("a load between one and two threads does not make them join and rest repeatedly", () => {
  // The same work takes 1.35 times as much time in two threads as in one.
  for (const work of [1.05, 1.2, 1.4]) {
    const load = (count: number) => all(Math.min(1, (count === 1 ? work : work * 1.35) / count))(count);
    const wanted = counts(2, load, 120);
    expect(
      wanted.filter((count, i) => i > 0 && count !== wanted[i - 1]),
      String(work),
    ).toEqual([2]);
  }
});
