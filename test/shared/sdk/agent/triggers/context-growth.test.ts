// The largest recent growth of a context, as agents report its size.

import { expect, test } from "vitest";
import { ContextGrowth } from "../../../../../shared/sdk/agent/triggers/context-growth.ts";

test("the largest of the last five steps counts; a compacted context is no step", () => {
  const growth = new ContextGrowth();
  const reports = [10, 40, 45, 20, 30, 31, 32, 33, 33];
  expect(reports.map((tokens) => growth.record(tokens))).toEqual([
    undefined,
    30, // 10 to 40
    30,
    30, // compacted to 20
    30,
    30,
    30, // 30, 5, 10, 1, 1
    10, // 5, 10, 1, 1, 1
    10,
  ]);
});

test("a context that only shrinks has no step", () => {
  const growth = new ContextGrowth();
  expect([30, 20, 10].map((tokens) => growth.record(tokens))).toEqual([undefined, undefined, undefined]);
});
