import { describe, expect, test } from "vitest";
import { formatNumber, formatTable } from "./table.ts";
import { row } from "./targets.ts";

describe("numbers", () => {
  test.each([
    [0.012345, "0.0123"],
    [1.5, "1.5"],
    [12.345, "12.3"],
    [999.4, "999"],
    [1_000.4, "1,000"],
    [1_234_567.8, "1,234,568"],
    [0, "0"],
    [Number.NaN, "—"],
  ])("%d is shown as %s", (value, shown) => expect(formatNumber(value)).toBe(shown));
});

test("the table has a block for each group, with columns aligned over all blocks", () => {
  const table = formatTable([
    {
      name: "write",
      store: "LMDB",
      about: "1,000 agents",
      rows: [row("p99", 12.34, "ms", { required: { below: 100 }, aim: { below: 15 } })],
    },
    {
      name: "sustained",
      store: "FoundationDB",
      about: "1,000 in flight",
      rows: [
        row("commits", 1_500, "/s", { required: { at_least: 2_000 }, aim: null }),
        row("checkpoint", 4_096, "bytes"),
      ],
    },
  ]);
  expect(table).toBe(
    [
      "write on LMDB: 1,000 agents",
      "            value  unit   required  aim   met",
      "p99          12.3  ms     < 100     < 15  aim",
      "",
      "sustained on FoundationDB: 1,000 in flight",
      "            value  unit   required  aim   met",
      "commits     1,500  /s     ≥ 2,000         required missed",
      "checkpoint  4,096  bytes",
    ].join("\n"),
  );
});
