import { describe, expect, test } from "vitest";
import { type Chart, drawChart } from "./chart.ts";
import { ticksOf } from "./ticks.ts";

const chart: Chart = {
  title: "Rates & <limits>",
  axis: "commits per second",
  shape: "bars",
  lines: [
    { label: "one", text: "100/s", dots: [{ value: 100, tone: "own" }] },
    { label: "two", text: "50/s", dots: [{ value: 50, tone: "other" }] },
  ],
};

describe("a chart", () => {
  test("of bars begins at 0, and a bar of half the value has half the length", () => {
    const [one, two] = [...drawChart(chart).matchAll(/<rect class="\w+" .*?width="([\d.]+)"/g)].map(
      ([, width]) => Number(width),
    );
    expect(two! / one!).toBeCloseTo(0.5, 2);
  });

  test("of dots has a disc, a ring and the line between them", () => {
    const svg = drawChart({
      ...chart,
      shape: "dots",
      lines: [
        {
          ...{ label: "write", text: "1 and 9 ms" },
          dots: [
            { value: 1, tone: "own" },
            { value: 9, tone: "own", hollow: true },
          ],
        },
      ],
      legend: ["p50", "p99"],
      limit: { value: 100, label: "limit" },
    });
    expect(svg).toContain('class="own"');
    expect(svg).toContain('class="own ring"');
    expect(svg).toContain('class="span"');
    expect(svg).toContain(">limit</text>");
  });

  test("cuts a label that would leave no space for the figures", () => {
    const [line] = chart.lines;
    const svg = drawChart({ ...chart, lines: [{ ...line!, label: "l".repeat(200) }] });
    const [, label] = /text-anchor="end">(l+…)</.exec(svg)!;
    expect(label!.length).toBeLessThan(70);
    expect(Number(/<text x="([\d.]+)" [^>]*>l/.exec(svg)?.[1])).toBeGreaterThan(label!.length * 6);
  });

  test("escapes its words, has a title, and closes every element", () => {
    const svg = drawChart(chart);
    expect(svg).toContain("<title>Rates &amp; &lt;limits&gt;</title>");
    expect(svg).not.toMatch(/NaN|undefined|Infinity/);
    const open = [...svg.matchAll(/<([a-z]+)(?: [^>]*[^/>])?>/g)].map(([, name]) => name!);
    const closed = [...svg.matchAll(/<\/([a-z]+)>/g)].map(([, name]) => name!);
    expect(open.sort()).toEqual(closed.sort());
  });

  test("has colours for a light and a dark page, for every tone", () => {
    const svg = drawChart(chart);
    expect(svg).toContain("prefers-color-scheme: dark");
    for (const tone of ["own", "other", "missed"])
      expect(svg.match(new RegExp(`--${tone}: #`, "g"))).toHaveLength(2);
  });
});

describe("the ticks of an axis", () => {
  test.each([
    [4_321, [0, 1_000, 2_000, 3_000, 4_000, 5_000]],
    [6, [0, 1, 2, 3, 4, 5, 6]],
    [0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]],
    [0, [0, 0.2, 0.4, 0.6, 0.8, 1]],
  ])("are round numbers from 0 to at least %d", (highest, ticks) =>
    expect(ticksOf([highest], "linear").ticks.map(({ value }) => value)).toEqual(ticks),
  );

  test.each([
    [
      [3, 40],
      [2, 5, 10, 20, 50],
    ],
    [
      [0.3, 4_000],
      [0.1, 1, 10, 100, 1_000, 10_000],
    ],
    [[5], [5, 10]],
  ])("are powers of ten or their parts around %j", (values, ticks) => {
    const axis = ticksOf(values, "logarithmic");
    expect(axis.ticks.map(({ value }) => value)).toEqual(ticks);
    for (const value of values) {
      expect(axis.share(value)).toBeGreaterThanOrEqual(0);
      expect(axis.share(value)).toBeLessThanOrEqual(1);
    }
  });

  test("are refused for values that no axis has", () => {
    expect(() => ticksOf([], "linear")).toThrow("finite values");
    expect(() => ticksOf([Number.NaN], "linear")).toThrow("finite values");
    expect(() => ticksOf([0], "logarithmic")).toThrow("above 0");
  });
});
