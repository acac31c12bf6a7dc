// Who is silent for too long, and when somebody has to look.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { lapsesAt, type Watch, Watches } from "../../../../services/watchdog/detection/watches.ts";

const watch = (task: string, changes: Partial<Watch> = {}): Watch => ({
  tenant: "default",
  task,
  fence: 1,
  agentId: "agent",
  agentType: "qa",
  silenceMs: 10_000,
  heardAt: 0,
  lastSignAt: 0,
  isOverdue: false,
  leaseUntil: 0,
  checkedAt: 0,
  notBefore: 0,
  ...changes,
});
const names = (found: readonly Watch[]): string[] => found.map(({ task }) => task);

describe("silence", () => {
  test("is too long when nothing was heard for the policy's time, to the millisecond", () => {
    const watches = new Watches();
    watches.add(watch("a", { heardAt: 500 }));
    expect(watches.silent(10_499, 0)).toEqual([]);
    expect(names(watches.silent(10_500, 0))).toEqual(["a"]);
  });

  test("moves away with each sign of life", () => {
    const watches = new Watches();
    const one = watch("a");
    watches.add(one);
    one.heardAt = 9_000;
    expect(watches.silent(10_000, 0)).toEqual([]);
    expect(watches.quietMs(10_000)).toBe(9_000);
    expect(names(watches.silent(19_000, 0))).toEqual(["a"]);
  });

  test("does not count from before the watchdog could hear", () => {
    const watches = new Watches();
    watches.add(watch("a", { heardAt: -50_000 }));
    expect(watches.silent(9_999, 0)).toEqual([]);
    expect(watches.silent(20_000, 15_000)).toEqual([]);
    expect(names(watches.silent(25_000, 15_000))).toEqual(["a"]);
  });

  test("who is silent is found again until something is done about it", () => {
    const watches = new Watches();
    const [a, b] = [watch("a"), watch("b")];
    watches.add(a);
    watches.add(b);
    expect(names(watches.silent(10_000, 0))).toEqual(["a", "b"]);
    expect(names(watches.silent(10_000, 0))).toEqual(["a", "b"]);
    watches.drop(a);
    watches.postpone(b, 12_000);
    expect(watches.silent(11_999, 0)).toEqual([]);
    expect(names(watches.silent(12_000, 0))).toEqual(["b"]);
  });

  test("the same task under another fence is another one", () => {
    const watches = new Watches();
    watches.add(watch("a"));
    watches.add(watch("a", { fence: 2, heardAt: 5_000 }));
    expect(watches.size).toBe(2);
    watches.drop({ tenant: "default", task: "a", fence: 1 });
    expect(watches.get({ tenant: "default", task: "a", fence: 2 })).toMatchObject({ heardAt: 5_000 });
    expect(watches.get({ tenant: "default", task: "a", fence: 1 })).toBeUndefined();
  });
});

test("looking only when somebody can be silent finds whom looking always would", () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("hear"), who: fc.nat(4) }),
    fc.record({ do: fc.constant("add"), who: fc.nat(4), silenceMs: fc.integer({ min: 1_000, max: 5_000 }) }),
    fc.record({ do: fc.constant("postpone"), who: fc.nat(4), ms: fc.nat(3_000) }),
    fc.record({ do: fc.constant("since") }),
    fc.record({ do: fc.constant("drop"), who: fc.nat(4) }),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(2_000), step), { maxLength: 60 }), (steps) => {
      const watches = new Watches();
      const all = new Map<string, Watch>();
      let [now, since] = [0, 0];
      for (const [after, one] of steps) {
        now += after;
        const task = "who" in one ? `task-${one.who}` : "";
        const known = all.get(task);
        if (one.do === "since") since = now;
        else if ("silenceMs" in one) {
          const added = watch(task, { heardAt: now, silenceMs: one.silenceMs });
          all.set(task, added);
          watches.add(added);
        } else if (known === undefined) continue;
        else if ("ms" in one) watches.postpone(known, now + one.ms);
        else if (one.do === "hear") known.heardAt = now;
        else {
          all.delete(task);
          watches.drop(known);
        }
        const expected = [...all.values()].filter((each) => lapsesAt(each, since) <= now);
        expect(names(watches.silent(now, since)).sort()).toEqual(names(expected).sort());
      }
    }),
  );
});
