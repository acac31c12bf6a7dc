// Calls to a thread: answers, refusals and errors reach their callers in order, also around the death of the thread.

import { afterEach, expect, test } from "vitest";
import { CallThread } from "../../../../shared/runtime/process/call-thread.ts";
import type { TestCall } from "./calls.program.ts";

const thread = new CallThread<TestCall>(new URL("./calls.program.ts", import.meta.url), { name: "calls" });
afterEach(() => thread.close());

const DEAD = { code: "UNAVAILABLE", retryable: true, details: { thread: "calls" } };

test("many calls at once get their own answers", async () => {
  const numbers = Array.from({ length: 100 }, (_, n) => n);
  await expect(Promise.all(numbers.map((n) => thread.call({ echo: n })))).resolves.toEqual(numbers);
});

test("a refusal arrives with its code and fields, and another error with its kind", async () => {
  const [refused, failed, after] = await Promise.allSettled([
    thread.call("refuse"),
    thread.call("fail"),
    thread.call({ echo: "after" }),
  ]);
  expect(refused).toMatchObject({
    reason: {
      name: "FleetError",
      code: "INVALID",
      fields: [{ path: "budget.tokens", expected: "at least 10", got: "1" }],
    },
  });
  expect(failed).toMatchObject({ reason: { name: "RangeError", message: "out of range" } });
  expect(after).toMatchObject({ value: "after" });
});

test("a call that cannot be sent fails alone", async () => {
  const [before, unsendable, after] = await Promise.allSettled([
    thread.call({ echo: "before" }),
    thread.call({ echo: () => {} }),
    thread.call({ echo: "after" }),
  ]);
  expect(unsendable).toMatchObject({ reason: { name: "DataCloneError" } });
  expect([before, after]).toMatchObject([{ value: "before" }, { value: "after" }]);
});

test.for(["exit", "defect"] as const)(
  "a thread that dies (%s) fails its waiting calls, and the next call starts it again",
  async (death) => {
    const [before, dead, waiting] = await Promise.allSettled([
      thread.call({ echo: "before" }),
      thread.call(death),
      thread.call({ echo: "waiting" }),
    ]);
    expect(before).toMatchObject({ value: "before" });
    expect([dead, waiting]).toMatchObject([{ reason: DEAD }, { reason: DEAD }]);
    await expect(thread.call({ echo: "again" })).resolves.toBe("again");
  },
);
