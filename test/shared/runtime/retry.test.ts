// Retries on the manual clock, which records the sleeps. No real time passes.

import fc from "fast-check";
import { expect, test } from "vitest";
import { backoffMs, type RetryOptions, withRetries } from "../../../shared/runtime/retry.ts";
import { manualClock } from "../../harness/clock.ts";

async function countAttempts(options: Partial<RetryOptions>, outcomes: (Error | "done")[]) {
  const clock = manualClock();
  let attempts = 0;
  const result = withRetries(
    { clock, baseMs: 100, maxMs: 1_000, random: () => 1, ...options },
    async (attempt) => {
      attempts += 1;
      expect(attempt).toBe(attempts);
      const outcome = outcomes[attempts - 1];
      if (outcome instanceof Error) throw outcome;
      if (outcome === undefined) throw new Error("attempted too often");
      return outcome;
    },
  ).catch((error: unknown) => error);
  await clock.advance(1_000_000);
  return { result: await result, attempts, sleeps: clock.sleeps };
}

const [first, second, third] = [new Error("1"), new Error("2"), new Error("3")];
const cases: [string, Partial<RetryOptions>, (Error | "done")[], number, unknown, number[]][] = [
  ["success at once", {}, ["done"], 1, "done", []],
  ["success after failures", {}, [first, second, "done"], 3, "done", [100, 200]],
  ["three attempts by default, the last error counts", {}, [first, second, third], 3, third, [100, 200]],
  ["one attempt", { attempts: 1 }, [first], 1, first, []],
  ["an error that is not retryable", { retryable: (e) => e !== second }, [first, second], 2, second, [100]],
  [
    "the longest delay",
    { attempts: 6 },
    [first, first, first, first, first, "done"],
    6,
    "done",
    [100, 200, 400, 800, 1_000],
  ],
  [
    "a delay that would pass the deadline",
    { attempts: 9, deadlineMs: 350 },
    [first, second, third],
    3,
    third,
    [100, 200],
  ],
];
test.each(cases)("%s", async (_, options, outcomes, attempts, result, sleeps) => {
  expect(await countAttempts(options, outcomes)).toEqual({ attempts, result, sleeps });
});

test("a stop during the pause ends the retries with the real error", async () => {
  const clock = manualClock();
  const abort = new AbortController();
  let attempts = 0;
  const result = withRetries(
    { clock, signal: abort.signal, baseMs: 3_600_000, maxMs: 3_600_000 },
    async () => {
      attempts += 1;
      throw first;
    },
  );
  const failed = expect(result).rejects.toBe(first);
  await clock.sleeping();
  abort.abort();
  await failed;
  expect(attempts).toBe(1);
});

test("an aborted signal prevents the first attempt", async () => {
  const signal = AbortSignal.abort(new Error("stopped"));
  const never = () => Promise.reject(new Error("attempted"));
  await expect(withRetries({ clock: manualClock(), signal }, never)).rejects.toThrow("stopped");
});

test("the delay is never below zero, above its bound or not a number", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5_000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (attempt, chance) => {
        const delay = backoffMs(attempt, { baseMs: 100, maxMs: 5_000, random: () => chance });
        return delay >= 0 && delay <= Math.min(5_000, 100 * 2 ** (attempt - 1));
      },
    ),
  );
});
