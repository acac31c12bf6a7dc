// Controllers: woken keys, the search, single-flight, backoff, bounded concurrency, shutdown.

import { describe, expect, test } from "vitest";
import { type ControllerTable, type Due, startController } from "../../../shared/runtime/controller.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { type ManualClock, manualClock } from "../../harness/clock.ts";

const log = createLogger({ service: "test", destination: { write: () => {} } });

interface Item {
  readonly name: string;
}

const item = (name: string): Item => ({ name });

/** A controller whose due items are in `due`; a run removes its item. Times are relative to the start. */
function controlled(changes: Partial<ControllerTable<Item>> = {}, first: Record<string, number> = {}) {
  const clock = manualClock();
  const beganMs = clock.now();
  const due = new Map(Object.entries(first));
  const runs: { name: string; atMs: number }[] = [];
  const searches: number[] = [];
  const controller = startController<Item>(
    {
      name: "test",
      fieldsOf: ({ name }) => ({ name }),
      run: async ({ name }) => {
        runs.push({ name, atMs: clock.now() - beganMs });
        due.delete(name);
      },
      search: async (untilMs, limit, passOver) => {
        searches.push(clock.now() - beganMs);
        const found: Due<Item>[] = [];
        for (const [name, atMs] of [...due].sort(([, a], [, b]) => a - b)) {
          if (beganMs + atMs > untilMs || passOver(item(name)) || found.length === limit) continue;
          found.push({ key: item(name), dueAt: new Date(beganMs + atMs).toISOString() });
        }
        return found;
      },
      ...changes,
    },
    { clock, log },
  );
  return { clock, due, runs, searches, controller };
}

const backlog = (count: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`item-${i}`, -1]));

/** In small steps, so that every wait ends near its time. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 25) await clock.advance(25);
}

/** Runs that end when the test opens them. */
function gate() {
  const opened = new Map<string, () => void>();
  const begun: string[] = [];
  return {
    begun,
    run: ({ name }: Item) => {
      begun.push(name);
      return new Promise<void>((resolve) => opened.set(name, resolve));
    },
    open(name: string) {
      const resolve = opened.get(name);
      opened.delete(name);
      resolve?.();
    },
    openAll() {
      for (const name of [...opened.keys()]) this.open(name);
    },
  };
}

describe("the search", () => {
  test("runs overdue keys at once, later ones when they are due, and none before", async () => {
    const { clock, runs, controller } = controlled({}, { overdue: -5, soon: 400, later: 2_600 });
    await clock.sleeping();
    expect(runs).toEqual([{ name: "overdue", atMs: 0 }]);
    await pass(clock, 4_000);
    expect(runs.map(({ name }) => name)).toEqual(["overdue", "soon", "later"]);
    for (const [i, dueMs] of [400, 2_600].entries()) {
      expect(runs[i + 1]!.atMs).toBeGreaterThanOrEqual(dueMs);
      expect(runs[i + 1]!.atMs).toBeLessThanOrEqual(dueMs + 75);
    }
    await controller.stop();
  });

  test("finds a key that became due without an event within a second", async () => {
    const { clock, due, runs, controller } = controlled();
    await clock.sleeping();
    due.set("lost", -5);
    await pass(clock, 1_100);
    expect(runs.map(({ name }) => name)).toEqual(["lost"]);
    await controller.stop();
  });

  test("works through a backlog of many pages without a pause", async () => {
    const { clock, runs, controller } = controlled({}, backlog(2_000));
    await clock.sleeping();
    expect(new Set(runs.map(({ name }) => name)).size).toBe(2_000);
    expect(clock.sleeps).toHaveLength(1);
    await controller.stop();
  });

  test("passes over held keys, and searches again when they are released", async () => {
    const held = { isHeld: true };
    const table = { held: { has: () => held.isHeld, endsInMs: 300 } };
    const { clock, runs, controller } = controlled(table, { saturated: -5 });
    await clock.sleeping();
    await clock.advance(299);
    expect(runs).toEqual([]);
    held.isHeld = false;
    await clock.advance(1);
    expect(runs).toEqual([{ name: "saturated", atMs: 300 }]);
    await controller.stop();
  });

  test("does not wait for a slow run", async () => {
    const runs = gate();
    const { clock, due, controller } = controlled({ run: runs.run }, { stuck: -5 });
    await clock.sleeping();
    due.set("other", -5);
    await pass(clock, 1_100);
    expect(runs.begun).toEqual(["stuck", "other"]);
    runs.openAll();
    await controller.stop();
  });

  test("continues after an error of the store", async () => {
    let isDown = true;
    const { clock, runs, controller } = controlled({
      search: async () => {
        if (isDown) throw new Error("the store is unavailable");
        return runs.length > 0 ? [] : [{ key: item("one"), dueAt: new Date(0).toISOString() }];
      },
    });
    await pass(clock, 500);
    isDown = false;
    await pass(clock, 1_000);
    expect(runs.map(({ name }) => name)).toEqual(["one"]);
    await controller.stop();
  });
});

describe("single-flight", () => {
  test("a woken key is run at once, and its caller waits for the run", async () => {
    const { runs, controller } = controlled();
    await controller.wake(item("a"));
    expect(runs).toEqual([{ name: "a", atMs: 0 }]);
    await controller.stop();
  });

  test("a key has one run at a time, and the wakes during a run make one more", async () => {
    const runs = gate();
    const { clock, controller } = controlled({ run: runs.run });
    const ended: number[] = [];
    const wakes = [1, 2, 3].map((n) => controller.wake(item("a")).then(() => ended.push(n)));
    await clock.advance(0);
    expect(runs.begun).toEqual(["a"]);
    const late = controller.wake(item("a"));
    runs.open("a");
    await clock.advance(0);
    expect(runs.begun).toEqual(["a", "a"]);
    runs.open("a");
    await Promise.all([...wakes, late]);
    expect(ended).toEqual([1, 2, 3]);
    expect(runs.begun).toEqual(["a", "a"]);
    await controller.stop();
  });

  test("wakes before a run begins are served by that run", async () => {
    const { runs, controller } = controlled();
    await Promise.all([1, 2, 3].map(() => controller.wake(item("a"))));
    expect(runs).toHaveLength(1);
    await controller.stop();
  });

  test("the search leaves a running key to its run", async () => {
    const runs = gate();
    const { clock, due, controller } = controlled({ run: runs.run });
    due.set("a", -5);
    await pass(clock, 3_000);
    expect(runs.begun).toEqual(["a"]);
    due.clear();
    runs.open("a");
    await pass(clock, 3_000);
    expect(runs.begun).toEqual(["a"]);
    await controller.stop();
  });
});

describe("backoff", () => {
  const failing = (names: readonly string[]) => {
    const runs: { name: string; atMs: number }[] = [];
    const begin = { ms: 0, clock: undefined as ManualClock | undefined };
    const bench = controlled({
      run: async ({ name }) => {
        runs.push({ name, atMs: begin.clock!.now() - begin.ms });
        if (names.includes(name)) throw new Error("fails");
        bench.due.delete(name);
      },
    });
    begin.clock = bench.clock;
    begin.ms = bench.clock.now();
    return { ...bench, runs };
  };

  test("a failed key is run again after a pause that grows to half a minute, and others do not wait for it", async () => {
    const { clock, due, runs, controller } = failing(["poison"]);
    due.set("poison", -5);
    await pass(clock, 5_000);
    due.set("good", -5);
    await pass(clock, 1_100);
    expect(runs.map(({ name }) => name)).toContain("good");
    await pass(clock, 150_000);
    const times = runs.filter(({ name }) => name === "poison").map(({ atMs }) => atMs);
    const pauses = times.slice(1).map((atMs, i) => atMs - times[i]!);
    expect(pauses[0]).toBeGreaterThanOrEqual(250);
    expect(pauses[0]).toBeLessThanOrEqual(600);
    expect(pauses.at(-1)).toBeGreaterThanOrEqual(15_000);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(31_100);
    await controller.stop();
  });

  test("a key that only an event knows is run again as well", async () => {
    const names = ["a"];
    const { clock, runs, controller } = failing(names);
    await controller.wake(item("a"));
    names.pop();
    await pass(clock, 600);
    expect(runs).toHaveLength(2);
    await pass(clock, 60_000);
    expect(runs).toHaveLength(2);
    await controller.stop();
  });

  test("a wake runs a key that backs off, never rejects, and a success ends the backoff", async () => {
    const names = ["a"];
    const { clock, due, runs, controller } = failing(names);
    for (let times = 0; times < 6; times += 1) await controller.wake(item("a"));
    due.set("a", -5);
    await pass(clock, 2_000);
    expect(runs).toHaveLength(6);
    names.pop();
    await controller.wake(item("a"));
    expect(runs).toHaveLength(7);
    due.set("a", -5);
    await pass(clock, 1_100);
    expect(runs).toHaveLength(8);
    await controller.stop();
  });

  test("a wall clock that is set back does not prolong a backoff", async () => {
    const { clock, due, runs, controller } = failing(["a"]);
    await controller.wake(item("a"));
    clock.skew(-3_600_000);
    due.set("a", -7_200_000);
    await pass(clock, 1_100);
    expect(runs.length).toBeGreaterThanOrEqual(2);
    await controller.stop();
  });
});

describe("bounds", () => {
  test("the search starts a part of the runs, so that a woken key does not wait for its backlog", async () => {
    const runs = gate();
    const { clock, controller } = controlled({ run: runs.run }, backlog(500));
    await pass(clock, 100);
    expect(runs.begun).toHaveLength(32);
    void controller.wake(item("event"));
    await pass(clock, 25);
    expect(runs.begun.at(-1)).toBe("event");
    runs.open("item-0");
    await pass(clock, 25);
    expect(runs.begun).toHaveLength(34);
    const stopped = controller.stop();
    runs.openAll();
    await stopped;
  });

  test("woken keys above the limit wait for a run to end", async () => {
    const runs = gate();
    const { clock, controller } = controlled({ run: runs.run });
    for (let i = 0; i < 200; i += 1) void controller.wake(item(`item-${i}`));
    await clock.advance(0);
    expect(runs.begun).toHaveLength(128);
    runs.open("item-7");
    await clock.advance(0);
    expect(runs.begun.at(-1)).toBe("item-128");
    const stopped = controller.stop();
    runs.openAll();
    await stopped;
  });
});

describe("stop", () => {
  test("waits for the runs in progress, begins no other, and leaves no caller waiting", async () => {
    const runs = gate();
    const { clock, due, searches, controller } = controlled({ run: runs.run });
    const wakes = Array.from({ length: 130 }, (_, i) => controller.wake(item(`item-${i}`)));
    await clock.advance(0);
    let isStopped = false;
    const stopped = controller.stop().then(() => (isStopped = true));
    const late = controller.wake(item("late"));
    await clock.advance(0);
    expect(isStopped).toBe(false);
    runs.openAll();
    await Promise.all([...wakes, late, stopped]);
    expect(runs.begun).toHaveLength(128);
    due.set("another", -5);
    const count = searches.length;
    await pass(clock, 3_000);
    expect(searches).toHaveLength(count);
  });
});
