// The breaker by itself, on a clock that moves by hand: when it opens, whom it lets go, and that only its own probe closes it.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Breaker, BreakerOpen, type BreakerState } from "../../../shared/runtime/breaker.ts";
import { manualClock } from "../../harness/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";

class Away extends Error {}

function make() {
  const clock = manualClock();
  const states: BreakerState[] = [];
  const part = { isBack: false, probes: 0 };
  const breaker = new Breaker({
    name: "part",
    failures: 3,
    isFailure: (error) => error instanceof Away,
    probe: async () => {
      part.probes += 1;
      return part.isBack;
    },
    stallMs: 60_000,
    probeEveryMs: 500,
    onChange: (state) => states.push(state),
    clock,
    log: testLog,
  });
  const fail = (error: Error = new Away()) =>
    breaker.run(() => Promise.reject(error)).catch((thrown: unknown) => thrown);
  return { clock, states, part, breaker, fail };
}

describe("breaker", () => {
  test("opens after three failures in a row, and refuses work without beginning it", async () => {
    const { breaker, fail } = make();
    for (let n = 0; n < 2; n += 1) expect(await fail()).toBeInstanceOf(Away);
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

  test("stays closed over errors that say that the part works", async () => {
    const { breaker, fail, states } = make();
    for (let n = 0; n < 20; n += 1) expect(await fail(new TypeError("mistake"))).toBeInstanceOf(TypeError);
    expect([breaker.state, states]).toEqual(["closed", []]);
  });

  test("lets go of those who wait when it opens", async () => {
    const { breaker, fail } = make();
    const stuck = breaker.run(() => new Promise<never>(() => {})).catch((error: unknown) => error);
    for (let n = 0; n < 3; n += 1) await fail();
    expect(await stuck).toMatchObject({ name: "BreakerOpen", begun: true });
    await breaker.stop();
  });

  test("is closed by its probe alone, whatever the wall clock does", async () => {
    const { clock, states, part, breaker, fail } = make();
    for (let n = 0; n < 3; n += 1) await fail();
    let isClosed = false;
    const closed = breaker.closed(new AbortController().signal).then(() => {
      isClosed = true;
    });
    clock.skew(-3_600_000);
    await clock.advance(1_600);
    expect(part.probes).toBe(3);
    expect([isClosed, breaker.awayMs]).toEqual([false, 1_600]);
    part.isBack = true;
    await clock.advance(500);
    await closed;
    expect([breaker.state, breaker.awayMs]).toEqual(["closed", 0]);
    expect(states.at(0)).toBe("open");
    expect(states.at(-1)).toBe("closed");
    expect(await breaker.run(async () => "fine")).toBe("fine");
    await clock.advance(10_000);
    expect(part.probes).toBe(4);
  });

  test("ends its waiting when it is stopped or its caller gives up", async () => {
    const { breaker, fail } = make();
    for (let n = 0; n < 3; n += 1) await fail();
    const giving = new AbortController();
    const waiting = breaker.closed(giving.signal);
    giving.abort();
    await waiting;
    await breaker.stop();
    expect(breaker.state).toBe("open");
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
