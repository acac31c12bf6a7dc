/** The check of the order with histories that are linearizable by construction, and with the same histories after one change. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { CallAttempt } from "../agents/history.ts";
import { judge } from "./checker.ts";
import type { Mutable } from "./scripted-history.ts";
import { ScriptedHistory, seen } from "./scripted-history.ts";

interface Step {
  readonly what: "create" | "update" | "latest" | "get" | "crash";
  /** The time from the beginning of the call to its effect, and from the effect to its end. */
  readonly before: number;
  readonly after: number;
  readonly which: number;
}

const steps = fc.array(
  fc.record<Step>({
    what: fc.constantFrom("create", "create", "update", "latest", "latest", "get", "crash"),
    before: fc.integer({ min: 1, max: 60 }),
    after: fc.integer({ min: 1, max: 60 }),
    which: fc.nat(),
  }),
  { minLength: 3, maxLength: 40 },
);

/** Each step takes effect ten units after the previous one; the lengths of the calls determine how they overlap. */
function scripted(plan: readonly Step[]): ScriptedHistory {
  const history = new ScriptedHistory();
  for (const [i, { what, before, after, which }] of plan.entries()) {
    const effect = 1_000 + 10 * i;
    const one = history.current[which % Math.max(1, history.current.length)];
    const attempt = step(history, what, one?.checkpoint_id);
    if (attempt !== undefined) Object.assign(attempt, { begin: effect - before, end: effect + after });
    if (what === "crash" && attempt !== undefined) attempt.end = Number.POSITIVE_INFINITY;
  }
  return history;
}

function step(
  history: ScriptedHistory,
  what: Step["what"],
  checkpoint: string | undefined,
): Mutable<CallAttempt> | undefined {
  if (what === "latest") return history.latest();
  if (what === "create" || checkpoint === undefined) return history.write({ op: "create" });
  if (what === "update") return history.write({ op: "update", checkpoint });
  if (what === "get") return history.read("get", [seen(entryOf(history, checkpoint))]);
  // Its client ended, so its outcome is unknown.
  const open = history.send({ op: "create" });
  history.apply(open, undefined);
  return open;
}

const entryOf = (history: ScriptedHistory, id: string) =>
  history.entries.findLast(({ checkpoint_id }) => checkpoint_id === id)!;

const orderProblems = (history: ScriptedHistory): string[] =>
  judge(history.evidence()).violations.flatMap(({ kind, text }) =>
    kind === "not_linearizable" ? [text] : [],
  );

test("reports nothing for overlapping calls", () => {
  fc.assert(
    fc.property(steps, (plan) => {
      expect(orderProblems(scripted(plan))).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

test("reports a read of a checkpoint that was replaced before the read began", () => {
  fc.assert(
    fc.property(steps, (plan) => {
      const history = scripted(plan);
      const first = history.write({ op: "create" });
      const stale = seen(history.entries.at(-1)!);
      const second = history.write({ op: "create" });
      const read = history.read("latest", [stale]);
      Object.assign(first, { begin: 2_000, end: 2_010 });
      Object.assign(second, { begin: 2_020, end: 2_030 });
      Object.assign(read, { begin: 2_031, end: 2_040 });
      expect(orderProblems(history)).toHaveLength(1);
    }),
    { numRuns: 200 },
  );
});

test("reports two writes in the wrong order", () => {
  fc.assert(
    fc.property(steps, (plan) => {
      const history = scripted(plan);
      const [early, late] = [history.write({ op: "create" }), history.write({ op: "create" })];
      Object.assign(early, { begin: 2_020, end: 2_030 });
      Object.assign(late, { begin: 2_000, end: 2_010 });
      expect(orderProblems(history)).toHaveLength(1);
    }),
    { numRuns: 200 },
  );
});
