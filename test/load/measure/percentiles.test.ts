import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { percentile, summarize } from "./percentiles.ts";

describe("percentiles", () => {
  test("are the values at the nearest rank", () => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect(summarize(values)).toEqual({ count: 100, p50: 50, p95: 95, p99: 99, max: 100 });
  });

  test("of one value are that value", () => {
    expect(summarize([7])).toEqual({ count: 1, p50: 7, p95: 7, p99: 7, max: 7 });
  });

  test("are sorted as numbers, not as text", () => {
    expect(summarize([9, 10, 100]).max).toBe(100);
  });

  test("of no values do not exist", () => {
    expect(() => summarize([])).toThrow(RangeError);
  });

  test("are the smallest values that at least their share of the values does not exceed", () => {
    const values = fc.array(fc.double({ noNaN: true }), { minLength: 1, maxLength: 500 });
    fc.assert(
      fc.property(values, fc.integer({ min: 1, max: 100 }), (measured, percent) => {
        const ascending = Float64Array.from(measured).sort();
        const found = percentile(ascending, percent / 100);
        const reached = ascending.filter((value) => value <= found).length;
        const below = ascending.filter((value) => value < found).length;
        expect(reached * 100).toBeGreaterThanOrEqual(percent * measured.length);
        expect(below * 100).toBeLessThan(percent * measured.length);
      }),
    );
  });
});
