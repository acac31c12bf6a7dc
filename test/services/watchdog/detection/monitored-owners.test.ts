// Which owners are silent for too long, and when the next one can be.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type MonitoredOwner,
  MonitoredOwners,
  silentAt,
} from "../../../../services/watchdog/detection/monitored-owners.ts";
import { manualClock } from "../../../harness/clock.ts";

const owner = (task: string, changes: Partial<MonitoredOwner> = {}): MonitoredOwner => ({
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
const names = (found: readonly MonitoredOwner[]): string[] => found.map(({ task }) => task);

describe("silence", () => {
  test("is too long after the silence timeout, to the millisecond", () => {
    const owners = new MonitoredOwners();
    owners.add(owner("a", { heardAt: 500 }));
    expect(owners.silent(10_499, 0)).toEqual([]);
    expect(names(owners.silent(10_500, 0))).toEqual(["a"]);
  });

  test("starts again with each sign of life", () => {
    const owners = new MonitoredOwners();
    const one = owner("a");
    owners.add(one);
    one.heardAt = 9_000;
    expect(owners.silent(10_000, 0)).toEqual([]);
    expect(owners.quietMs(10_000)).toBe(9_000);
    expect(names(owners.silent(19_000, 0))).toEqual(["a"]);
  });

  test("does not count before the watchdog could observe", () => {
    const owners = new MonitoredOwners();
    owners.add(owner("a", { heardAt: -50_000 }));
    expect(owners.silent(9_999, 0)).toEqual([]);
    expect(owners.silent(20_000, 15_000)).toEqual([]);
    expect(names(owners.silent(25_000, 15_000))).toEqual(["a"]);
  });

  test("is reported again until the owner is dropped or postponed", () => {
    const owners = new MonitoredOwners();
    const [a, b] = [owner("a"), owner("b")];
    owners.add(a);
    owners.add(b);
    expect(names(owners.silent(10_000, 0))).toEqual(["a", "b"]);
    expect(names(owners.silent(10_000, 0))).toEqual(["a", "b"]);
    owners.drop(a);
    owners.postpone(b, 12_000);
    expect(owners.silent(11_999, 0)).toEqual([]);
    expect(names(owners.silent(12_000, 0))).toEqual(["b"]);
  });

  test("is that of one fence: the same task under another fence is another owner", () => {
    const owners = new MonitoredOwners();
    owners.add(owner("a"));
    owners.add(owner("a", { fence: 2, heardAt: 5_000 }));
    expect(owners.size).toBe(2);
    owners.drop({ tenant: "default", task: "a", fence: 1 });
    expect(owners.get({ tenant: "default", task: "a", fence: 2 })).toMatchObject({ heardAt: 5_000 });
    expect(owners.get({ tenant: "default", task: "a", fence: 1 })).toBeUndefined();
  });
});

describe("the pause of a loop", () => {
  test("is long without owners, short with them, and shorter if the loop wants that", () => {
    const owners = new MonitoredOwners();
    let soonestMs = 40;
    const [usual, own] = [owners.pause(), owners.pause(() => soonestMs)];
    expect([usual.ms, own.ms]).toEqual([5_000, 5_000]);
    owners.add(owner("a"));
    expect([usual.ms, own.ms]).toEqual([250, 40]);
    soonestMs = 0;
    expect(own.ms).toBe(1);
    soonestMs = Number.POSITIVE_INFINITY;
    expect(own.ms).toBe(250);
  });

  test("ends in each loop when the first owner is added", async () => {
    const owners = new MonitoredOwners();
    const pauses = [owners.pause(), owners.pause()];
    const clock = manualClock(0);
    const waits = pauses.map(({ ms, wake }) => clock.wait(ms, wake, new AbortController().signal));
    await clock.sleeping(2);
    owners.add(owner("a"));
    await Promise.all(waits);
    expect(clock.now()).toBe(0);
  });
});

test("the lower bound of the next timeout hides no silent owner", () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("hear"), who: fc.nat(4) }),
    fc.record({ do: fc.constant("add"), who: fc.nat(4), silenceMs: fc.integer({ min: 1_000, max: 5_000 }) }),
    fc.record({ do: fc.constant("postpone"), who: fc.nat(4), ms: fc.nat(3_000) }),
    fc.record({ do: fc.constant("since") }),
    fc.record({ do: fc.constant("drop"), who: fc.nat(4) }),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(2_000), step), { maxLength: 60 }), (steps) => {
      const owners = new MonitoredOwners();
      const all = new Map<string, MonitoredOwner>();
      let [now, since] = [0, 0];
      for (const [after, one] of steps) {
        now += after;
        const task = "who" in one ? `task-${one.who}` : "";
        const known = all.get(task);
        if (one.do === "since") since = now;
        else if ("silenceMs" in one) {
          const added = owner(task, { heardAt: now, silenceMs: one.silenceMs });
          all.set(task, added);
          owners.add(added);
        } else if (known === undefined) continue;
        else if ("ms" in one) owners.postpone(known, now + one.ms);
        else if (one.do === "hear") known.heardAt = now;
        else {
          all.delete(task);
          owners.drop(known);
        }
        const expected = [...all.values()].filter((each) => silentAt(each, since) <= now);
        expect(names(owners.silent(now, since)).sort()).toEqual(names(expected).sort());
      }
    }),
  );
});
