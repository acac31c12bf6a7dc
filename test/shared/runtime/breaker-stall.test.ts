// The breaker and late work: it opens only when nothing at all succeeds.
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { Breaker, BreakerOpen } from "../../../shared/runtime/breaker.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";

const breakers: Breaker[] = [];
afterEach(async () => {
  for (const breaker of breakers.splice(0)) await breaker.stop();
});

function open({ stallMs = 60_000, probe = async () => false } = {}): Breaker {
  const breaker = new Breaker({
    name: "test",
    failures: 3,
    isFailure: () => false,
    stallMs,
    probe,
    probeEveryMs: 20,
    clock: systemClock,
    log: createLogger({ service: "test", level: "silent" }),
  });
  breakers.push(breaker);
  return breaker;
}

const never = () => new Promise<never>(() => {});

test("opens and abandons the running work when nothing succeeds for the time of a stall", async () => {
  const breaker = open({ stallMs: 150 });
  const begin = performance.now();
  await expect(breaker.run(never)).rejects.toSatisfy(
    (error) => error instanceof BreakerOpen && error.begun === true,
  );
  expect(performance.now() - begin).toBeGreaterThanOrEqual(150);
  expect(breaker.state).not.toBe("closed");
});

test("work that hangs does not open it while other work succeeds", async () => {
  const breaker = open({ stallMs: 400 });
  let ended: unknown;
  breaker.run(never).catch((error: unknown) => {
    ended = error;
  });
  for (const end = performance.now() + 1_200; performance.now() < end; ) await breaker.run(() => sleep(30));
  expect([breaker.state, ended]).toEqual(["closed", undefined]);
});

test("time in which the process stood still does not count", async () => {
  const breaker = open({ stallMs: 300 });
  const work = breaker.run(async () => {
    // Blocks the event loop, as in a paused process.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
    await sleep(100);
    return "done";
  });
  expect(await work).toBe("done");
});

test("closes when a probe succeeds", async () => {
  let isBack = false;
  const breaker = open({ stallMs: 100, probe: async () => isBack });
  await expect(breaker.run(never)).rejects.toBeInstanceOf(BreakerOpen);
  isBack = true;
  await breaker.closed(AbortSignal.timeout(10_000));
  expect(await breaker.run(async () => "well")).toBe("well");
});

test("work that hung before it opened does not open it again", async () => {
  const breaker = open({ stallMs: 100, probe: async () => true });
  await expect(breaker.run(never)).rejects.toBeInstanceOf(BreakerOpen);
  await breaker.closed(AbortSignal.timeout(10_000));
  await sleep(250);
  expect(breaker.state).toBe("closed");
});
