import { describe, expect, test } from "vitest";
import { type Bound, judge, judgedOnFoundationdb, judgedQuickly, row, TARGETS } from "./targets.ts";

const latency = { required: { below: 100 }, aim: { below: 15 } };

describe("judging a figure", () => {
  test.each([
    [14.9, "aim"],
    [15, "required"],
    [99.9, "required"],
    [100, "required missed"],
  ])("a latency of %d ms: %s", (value, met) => expect(judge(value, latency)).toBe(met));

  test.each([
    [24.9, "required missed"],
    [25, "required"],
    [34.9, "required"],
    [35, "aim"],
  ])("a rate that is %d %% of the raw store's: %s", (value, met) => {
    const share = row("commits to raw commits", value, "%", TARGETS.raw_share);
    expect(share.met).toBe(met);
    expect(judgedOnFoundationdb(share)).toEqual(share);
  });

  test("a figure without a target is not judged", () => {
    expect(row("size", 4, "KB")).toEqual({
      what: "size",
      value: 4,
      unit: "KB",
      required: null,
      aim: null,
      met: null,
    });
  });

  test("a figure that misses an aim alone meets its requirement", () => {
    expect(judge(3, TARGETS.search_growth)).toBe("required");
    expect(judge(1.1, TARGETS.search_growth)).toBe("aim");
  });

  test("a figure that is not a number misses its requirement", () => {
    expect(judge(Number.NaN, latency)).toBe("required missed");
  });

  test("an unknown figure is not judged", () => {
    expect(judge(null, latency)).toBeNull();
  });

  test.each([
    [row("slow", 500, "ms", latency), "not judged: quick run"],
    [row("fast", 5, "ms", latency), "not judged: quick run"],
    [row("size", 4, "KB"), null],
    [row("failed", 1, "requests", TARGETS.failed), "required missed"],
    [row("failed", 0, "requests", TARGETS.failed), "required"],
    [row("committed", 999, "checkpoints", TARGETS.burst_committed), "required missed"],
  ])("in a quick run only failures are judged: %o", (given, met) => {
    expect(judgedQuickly(given)).toEqual({ ...given, met });
  });

  test("on FoundationDB its own targets are required, and the others are not judged", () => {
    const write = row("write", 99, "ms", TARGETS.write);
    expect(judgedOnFoundationdb(write)).toEqual({ ...write, aim: null, met: "required" });
    expect(judgedOnFoundationdb(row("get", 10, "ms", TARGETS.get)).met).toBe("required missed");
    const paced = judgedOnFoundationdb(row("write", 99, "ms", TARGETS.paced_write));
    expect([paced.required, paced.met]).toEqual([TARGETS.write.required, "required"]);
    const besideNeighbour = judgedOnFoundationdb(row("write", 99, "ms", TARGETS.busy_write));
    expect([besideNeighbour.required, besideNeighbour.met]).toEqual([null, null]);
    const commits = judgedOnFoundationdb(row("commits", 900, "/s", TARGETS.commits));
    expect([commits.required, commits.met]).toEqual([null, null]);
    for (const target of [TARGETS.handoffs_at_once, TARGETS.detection]) {
      const later = row("later", 400, "ms", target);
      expect(later.met).toBe("required missed");
      expect(judgedOnFoundationdb(later)).toEqual({
        ...later,
        required: { below: 500 },
        aim: null,
        met: "required",
      });
    }
  });

  test("every aim is stricter than its requirement", () => {
    const strictness = (bound: Bound): number => ("below" in bound ? -bound.below : bound.at_least);
    for (const { required, aim } of Object.values(TARGETS)) {
      if (required !== null && aim !== null) expect(strictness(aim)).toBeGreaterThan(strictness(required));
    }
  });
});
