// Closing: order, errors, hanging steps and late openings.

import { expect, test } from "vitest";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { CloseTimeoutError, createClosers } from "../../../../shared/runtime/process/shutdown.ts";
import { manualClock } from "../../../harness/clock.ts";

function setup() {
  const steps: string[] = [];
  const clock = manualClock();
  const log = createLogger({
    service: "test",
    destination: { write: (line) => steps.push(`log ${JSON.parse(line).step}`) },
  });
  return { steps, clock, closers: createClosers(log, clock) };
}

test("steps run in reverse order, once however often it is closed", async () => {
  const { steps, clock, closers } = setup();
  for (const name of ["store", "bus", "worker"]) closers.add(name, async () => void steps.push(name));
  const first = closers.close();
  expect(closers.close()).toBe(first);
  await first;
  expect(steps).toEqual(["worker", "bus", "store"]);
  expect(clock.sleepers).toBe(0);
});

test("every step is tried and the first error is reported", async () => {
  const { steps, closers } = setup();
  closers.add("store", () => void steps.push("store"));
  closers.add("bus", () => Promise.reject(new Error("second")));
  closers.add("worker", () => {
    throw new Error("first");
  });
  await expect(closers.close()).rejects.toThrow("first");
  expect(steps).toEqual(["log worker", "log bus", "store"]);
});

test("a step that hangs neither uses up the time of the others nor exceeds the deadline", async () => {
  const { steps, clock, closers } = setup();
  closers.add("store", async () => {
    await clock.sleep(100);
    steps.push(`store at ${clock.monotonic()}`);
  });
  closers.add("worker", () => new Promise(() => {}));
  const closed = closers.close({ timeoutMs: 8_000 });
  const failed = expect(closed).rejects.toMatchObject({ name: "CloseTimeoutError", step: "worker" });
  await clock.advance(8_000);
  await failed;
  await closed.catch((error) => expect(error).toBeInstanceOf(CloseTimeoutError));
  expect(steps).toEqual(["log worker", "store at 7100"]);
  expect(clock.sleepers).toBe(0);
});

test("a resource that opens during or after the closing is closed too", async () => {
  const { steps, closers } = setup();
  closers.add("outer", async () => {
    closers.add("during", () => void steps.push("during"));
  });
  await closers.close();
  closers.add("after", () => void steps.push("after"));
  expect(steps).toEqual(["during", "after"]);
});
