// The cost of a task from the running totals in its checkpoints.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Checkpoint } from "../../../shared/sdk/sdk.ts";
import { spendingBy, taskSegments, total } from "../../../shared/sdk/task-cost.ts";

interface Report {
  readonly agent?: string;
  readonly iteration?: number;
  readonly phase?: string;
  readonly model?: string;
  readonly tokens: number;
  readonly amount?: number;
  readonly currency?: string;
}

const history = (reports: readonly Report[]): Checkpoint[] =>
  reports.map(({ agent = "one", iteration = 1, phase = "testing", model, tokens, amount, currency }, i) => {
    const cost = { ...(amount !== undefined && { amount }), ...(currency && { currency }) };
    const metrics = { tokens_consumed: tokens, ...(model && { model }), cost };
    const metadata = { agent_id: agent, iteration, seq: i + 1 };
    return { metadata, execution_state: { phase }, metrics } as Checkpoint;
  });

test("a segment is a run of one agent, phase and model, and costs the increase of the totals", () => {
  const segments = taskSegments(
    history([
      { tokens: 100, amount: 0.1, model: "small" },
      { tokens: 250, amount: 0.3, model: "small" },
      { tokens: 900, amount: 2.3, model: "large" },
      { tokens: 1_000, amount: 2.4, model: "large", phase: "reviewing" },
      { tokens: 40, amount: 0.5, agent: "two", iteration: 2, phase: "reviewing" },
    ]),
  );
  const usd = (amount: number) => [{ currency: "USD", amount }];
  const one = { agent_id: "one", phase: "testing" };
  expect(segments).toEqual([
    { ...one, model: "small", first_seq: 1, last_seq: 2, checkpoints: 2, tokens: 250, money: usd(0.3) },
    { ...one, model: "large", first_seq: 3, last_seq: 3, checkpoints: 1, tokens: 650, money: usd(2) },
    {
      ...{ ...one, phase: "reviewing", model: "large", first_seq: 4, last_seq: 4 },
      ...{ checkpoints: 1, tokens: 100, money: usd(0.1) },
    },
    {
      ...{ agent_id: "two", phase: "reviewing", model: null, first_seq: 5, last_seq: 5 },
      ...{ checkpoints: 1, tokens: 40, money: usd(0.5) },
    },
  ]);
  expect(spendingBy(segments, "phase")).toEqual([
    { key: "testing", checkpoints: 3, tokens: 900, money: usd(2.3) },
    { key: "reviewing", checkpoints: 2, tokens: 140, money: usd(0.6) },
  ]);
  expect(spendingBy(segments, "model").map(({ key }) => key)).toEqual(["small", "large", null]);
  expect(total(segments)).toEqual({ checkpoints: 5, tokens: 1_040, money: usd(2.9) });
});

test("a total that began again counts in full", () => {
  const reports = [{ tokens: 100 }, { tokens: 30 }, { tokens: 50 }];
  expect(total(taskSegments(history(reports))).tokens).toBe(150);
});

test("agents that alternate keep their own totals", () => {
  const reports = [
    { tokens: 100 },
    { tokens: 70, agent: "two" },
    { tokens: 110 },
    { tokens: 90, agent: "two" },
  ];
  expect(taskSegments(history(reports)).map(({ tokens }) => tokens)).toEqual([100, 70, 10, 20]);
});

test("each currency has its own sum", () => {
  const reports = [
    { tokens: 1, amount: 1.5 },
    { tokens: 2, amount: 2, currency: "EUR", agent: "two" },
    { tokens: 2, amount: 1.75 },
  ];
  const money = [
    { currency: "EUR", amount: 2 },
    { currency: "USD", amount: 1.75 },
  ];
  expect(total(taskSegments(history(reports))).money).toEqual(money);
});

test("the sums of agents, phases and models agree with the sum of the last totals", () => {
  const report = fc.record({
    agent: fc.constantFrom("one", "two"),
    phase: fc.constantFrom("planning", "testing"),
    model: fc.constantFrom("small", "large"),
    step: fc.nat({ max: 1_000 }),
  });
  fc.assert(
    fc.property(fc.array(report), (steps) => {
      const totals = new Map<string, number>();
      const reports = steps.map(({ step, ...rest }) => {
        const tokens = (totals.get(rest.agent) ?? 0) + step;
        totals.set(rest.agent, tokens);
        return { ...rest, tokens };
      });
      const segments = taskSegments(history(reports));
      const expected = [...totals.values()].reduce((all, one) => all + one, 0);
      for (const key of ["agent_id", "phase", "model"] as const)
        expect(total(spendingBy(segments, key))).toEqual({
          checkpoints: steps.length,
          tokens: expected,
          money: [],
        });
    }),
  );
});
