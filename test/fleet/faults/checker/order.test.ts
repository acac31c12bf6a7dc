/** The check of the order against histories that are linearizable by construction, and against the same with one lie in them. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Attempt } from "../agents/history.ts";
import { judge } from "./checker.ts";
import type { Mutable } from "./story.ts";
import { Story, seen } from "./story.ts";

interface Step {
  readonly what: "create" | "update" | "latest" | "get" | "crash";
  /** How long before and after the moment that counts the call begins and ends. */
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

/** Each step takes effect at a moment of its own, ten units after the one before; calls overlap as their lengths say. */
function told(plan: readonly Step[]): Story {
  const story = new Story();
  for (const [i, { what, before, after, which }] of plan.entries()) {
    const moment = 1_000 + 10 * i;
    const one = story.current[which % Math.max(1, story.current.length)];
    const attempt = step(story, what, one?.checkpoint_id);
    if (attempt !== undefined) Object.assign(attempt, { begin: moment - before, end: moment + after });
    if (what === "crash" && attempt !== undefined) attempt.end = Number.POSITIVE_INFINITY;
  }
  return story;
}

function step(
  story: Story,
  what: Step["what"],
  checkpoint: string | undefined,
): Mutable<Attempt> | undefined {
  if (what === "latest") return story.latest();
  if (what === "create" || checkpoint === undefined) return story.write({ op: "create" });
  if (what === "update") return story.write({ op: "update", checkpoint });
  if (what === "get") return story.read("get", [seen(entryOf(story, checkpoint))]);
  // Its client died, and nobody knows that it was applied.
  const open = story.ask({ op: "create" });
  story.apply(open, undefined);
  return open;
}

const entryOf = (story: Story, id: string) =>
  story.entries.findLast(({ checkpoint_id }) => checkpoint_id === id)!;

const orderProblems = (story: Story): string[] =>
  judge(story.evidence()).violations.flatMap(({ kind, text }) => (kind === "not_linearizable" ? [text] : []));

test("no false alarm, however calls overlap", () => {
  fc.assert(
    fc.property(steps, (plan) => {
      expect(orderProblems(told(plan))).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

test("a read of what was replaced before it began is found, wherever it stands", () => {
  fc.assert(
    fc.property(steps, (plan) => {
      const story = told(plan);
      const first = story.write({ op: "create" });
      const stale = seen(story.entries.at(-1)!);
      const second = story.write({ op: "create" });
      const read = story.read("latest", [stale]);
      Object.assign(first, { begin: 2_000, end: 2_010 });
      Object.assign(second, { begin: 2_020, end: 2_030 });
      Object.assign(read, { begin: 2_031, end: 2_040 });
      expect(orderProblems(story)).toHaveLength(1);
    }),
    { numRuns: 200 },
  );
});

test("two writes in the wrong order are found, wherever they stand", () => {
  fc.assert(
    fc.property(steps, (plan) => {
      const story = told(plan);
      const [early, late] = [story.write({ op: "create" }), story.write({ op: "create" })];
      Object.assign(early, { begin: 2_020, end: 2_030 });
      Object.assign(late, { begin: 2_000, end: 2_010 });
      expect(orderProblems(story)).toHaveLength(1);
    }),
    { numRuns: 200 },
  );
});
