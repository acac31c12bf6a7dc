// The breaker on a manual clock: when it opens, which work it abandons, and that only its own probe closes
// it.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Breaker, BreakerOpen, type BreakerState } from "../../../shared/runtime/breaker.ts";
import { manualClock } from "../../harness/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";

class Unavailable extends Error {}

function make() {
  const clock = manualClock();
  const states: BreakerState[] = [];
  const dependency = { isBack: false, probes: 0 };
  const breaker = new Breaker({
    name: "dependency",
    failures: 3,
    isFailure: (error) => error instanceof Unavailable,
    probe: async () => {
      dependency.probes += 1;
      return dependency.isBack;
    },
    stallMs: 60_000,
    probeEveryMs: 500,
    onChange: (state) => states.push(state),
    clock,
    log: testLog,
  });
  const fail = (error: Error = new Unavailable()) =>
    breaker.run(() => Promise.reject(error)).catch((thrown: unknown) => thrown);
  return { clock, states, dependency, breaker, fail };
}

describe("breaker", () => {
  test("opens after three failures in a row, and refuses work without beginning it", async () => {
    const { breaker, fail } = make();
    for (let n = 0; n < 2; n += 1) expect(await fail()).toBeInstanceOf(Unavailable);
    expect(await breaker.run(async () => "fine")).toBe("fine");
    for (let n = 0; n < 2; n += 1) await fail();
    expect(breaker.state).toBe("closed");
    await fail();
    expect(breaker.state).toBe("open");
    let begun = false;
    const refused = await breaker
      .run(async () => {
        begun = true;
      })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(BreakerOpen);
    expect(refused).toMatchObject({ begun: false });
    expect(begun).toBe(false);
    await breaker.stop();
  });

  test("other errors do not open it", async () => {
    const { breaker, fail, states } = make();
    for (let n = 0; n < 20; n += 1) expect(await fail(new TypeError("mistake"))).toBeInstanceOf(TypeError);
    expect([breaker.state, states]).toEqual(["closed", []]);
  });

  test("abandons the running work when it opens", async () => {
    const { breaker, fail } = make();
    const stuck = breaker.run(() => new Promise<never>(() => {})).catch((error: unknown) => error);
    for (let n = 0; n < 3; n += 1) await fail();
    expect(await stuck).toMatchObject({ name: "BreakerOpen", begun: true });
    await breaker.stop();
  });

  test("only its probe closes it, even when the wall clock jumps", async () => {
    const { clock, states, dependency, breaker, fail } = make();
    for (let n = 0; n < 3; n += 1) await fail();
    let isClosed = false;
    const closed = breaker.closed(new AbortController().signal).then(() => {
      isClosed = true;
    });
    clock.skew(-3_600_000);
    await clock.advance(1_600);
    expect(dependency.probes).toBe(3);
    expect([isClosed, breaker.openMs]).toEqual([false, 1_600]);
    dependency.isBack = true;
    await clock.advance(500);
    await closed;
    expect([breaker.state, breaker.openMs]).toEqual(["closed", 0]);
    expect(states.at(0)).toBe("open");
    expect(states.at(-1)).toBe("closed");
    expect(await breaker.run(async () => "fine")).toBe("fine");
    await clock.advance(10_000);
    expect(dependency.probes).toBe(4);
  });

  test("a wait ends when its caller gives up", async () => {
    const { breaker, fail } = make();
    for (let n = 0; n < 3; n += 1) await fail();
    const giving = new AbortController();
    const waiting = breaker.closed(giving.signal);
    giving.abort();
    await waiting;
    await breaker.stop();
    expect(breaker.state).toBe("open");
  });

  test("the late result of abandoned work changes nothing", async () => {
    const { clock, dependency, breaker, fail } = make();
    const late = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
    const abandoned = late.map(({ promise }) => breaker.run(() => promise).catch((error: unknown) => error));
    for (let n = 0; n < 3; n += 1) await fail();
    for (const error of await Promise.all(abandoned)) expect(error).toBeInstanceOf(BreakerOpen);
    dependency.isBack = true;
    await clock.advance(500);
    for (const { reject } of late) reject(new Unavailable());
    await Promise.allSettled(late.map(({ promise }) => promise));
    expect(breaker.state).toBe("closed");
  });

  test("a synchronous error counts like a rejection", async () => {
    const { breaker } = make();
    const work = (): never => {
      throw new Unavailable();
    };
    for (let n = 0; n < 3; n += 1) await expect(breaker.run(work)).rejects.toBeInstanceOf(Unavailable);
    expect(breaker.state).toBe("open");
    await breaker.stop();
  });

  test("opens exactly when the last three results were failures", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 20 }), async (results) => {
        const { breaker, fail } = make();
        let row = 0;
        for (const ok of results) {
          if (row === 3) break;
          row = ok ? 0 : row + 1;
          if (ok) await breaker.run(async () => {});
          else await fail();
        }
        expect(breaker.state).toBe(row === 3 ? "open" : "closed");
        await breaker.stop();
      }),
    );
  });
});
