import { describe, expect, test } from "vitest";
import { seededRandom } from "../../workload.ts";
import { fitLine, type Point, studentQuantile } from "./fit.ts";

const RUNS = 400;

const line = (count: number, slope: number, noise: (i: number) => number): Point[] =>
  Array.from({ length: count }, (_, i) => ({ x: i / 10, y: 100 + slope * (i / 10) + noise(i) }));

/** Normal noise; each value keeps the share `memory` of the one before it. */
function noiseOf(seed: number, memory: number): (i: number) => number {
  const random = seededRandom(seed);
  let last = 0;
  return () => {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    last = memory * last + normal;
    return last;
  };
}

/** The share of runs whose interval contains the true slope. */
function coverage(memory: number, count: number): number {
  const hits = Array.from({ length: RUNS }, (_, seed) => {
    const { low, high } = fitLine(line(count, 3, noiseOf(seed + 1, memory)))!;
    return low <= 3 && 3 <= high;
  });
  return hits.filter(Boolean).length / RUNS;
}

describe("a line through samples", () => {
  test("samples on a line give its slope without doubt", () => {
    const fit = fitLine(line(10, 2, () => 0))!;
    expect(fit.slope).toBeCloseTo(2, 9);
    expect(fit.high - fit.low).toBeLessThan(1e-6);
    expect(fit).toMatchObject({ samples: 10 });
    expect(fit.mean).toBeCloseTo(100.9, 9);
  });

  test("a constant has the slope 0 and an interval of no width", () => {
    expect(fitLine(line(10, 0, () => 0))).toMatchObject({ slope: 0, low: 0, high: 0, mean: 100 });
  });

  test("the interval is that of a published example", () => {
    // Body heights and weights of fifteen women; the slope is 61.272 with a standard error of 1.776.
    const heights = [1.47, 1.5, 1.52, 1.55, 1.57, 1.6, 1.63, 1.65, 1.68, 1.7, 1.73, 1.75, 1.78, 1.8, 1.83];
    const weights = [
      52.21, 53.12, 54.48, 55.84, 57.2, 58.57, 59.93, 61.29, 63.11, 64.47, 66.28, 68.1, 69.92, 72.19, 74.46,
    ];
    const fit = fitLine(heights.map((x, i) => ({ x, y: weights[i]! })))!;
    expect(fit.slope).toBeCloseTo(61.272, 2);
    // Its residuals are a curve, so neighbours resemble each other and the interval is wider than that of independent ones.
    expect(fit.high - fit.slope).toBeGreaterThan(2.1604 * 1.776);
  });

  test("of independent samples about 95 % of the intervals contain the true slope", () => {
    expect(coverage(0, 30)).toBeGreaterThan(0.92);
    expect(coverage(0, 30)).toBeLessThanOrEqual(1);
  });

  test("samples that resemble their neighbours widen the interval", () => {
    expect(coverage(0.6, 60)).toBeGreaterThan(0.85);
  });

  test("too few samples leave everything open, and one has no line", () => {
    expect(fitLine(line(3, 1, () => 0))).toMatchObject({ low: -Infinity, high: Infinity });
    expect(fitLine(line(1, 1, () => 0))).toBeUndefined();
    expect(fitLine([])).toBeUndefined();
    expect(fitLine([1, 2].map((y) => ({ x: 5, y })))).toBeUndefined();
  });

  test.each([
    [0.5, Infinity],
    [1, 12.706],
    [5, 2.571],
    [6, 2.447],
    [10, 2.228],
    [30, 2.042],
    [1_000, 1.962],
  ])("the quantile of %d degrees of freedom is %d", (degrees, quantile) => {
    if (quantile === Infinity) expect(studentQuantile(degrees)).toBe(quantile);
    else expect(studentQuantile(degrees)).toBeCloseTo(quantile, 2);
  });
});
