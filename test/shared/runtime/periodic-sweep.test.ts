import { expect, test } from "vitest";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { startSweep } from "../../../shared/runtime/periodic-sweep.ts";
import { manualClock } from "../../harness/clock.ts";

const log = createLogger({ service: "test", destination: { write: () => {} } });

interface Item {
  readonly name: string;
  readonly at: string | null;
}

interface LeavingOut {
  readonly isLeftOut: () => boolean;
  readonly againMs: () => number;
}

function sweep(clock: ReturnType<typeof manualClock>, items: Item[], leavingOut?: LeavingOut) {
  const handled: { name: string; atMs: number }[] = [];
  const dueMs = ({ at }: Item): number => (at === null ? Number.POSITIVE_INFINITY : Date.parse(at));
  const stop = startSweep<Item>({
    name: "test",
    due: async (untilMs, limit) => {
      if (leavingOut?.isLeftOut()) return [];
      return items.filter((item) => dueMs(item) <= untilMs).slice(0, limit);
    },
    dueAt: ({ at }) => at,
    handle: async (item) => {
      items.splice(items.indexOf(item), 1);
      handled.push({ name: item.name, atMs: clock.now() });
    },
    ...(leavingOut !== undefined && { againMs: leavingOut.againMs }),
    clock,
    log,
  });
  return { handled, stop };
}

test("what is due is handled at once, what is due soon when it is, and nothing before", async () => {
  const clock = manualClock();
  const beganMs = clock.now();
  const iso = (ms: number) => new Date(beganMs + ms).toISOString();
  const items = [
    { name: "overdue", at: iso(-5) },
    { name: "soon", at: iso(400) },
    { name: "later", at: iso(2_600) },
  ];
  const { handled, stop } = sweep(clock, items);
  await clock.sleeping();
  expect(handled.map(({ name }) => name)).toEqual(["overdue"]);
  for (let ms = 0; ms < 4_000; ms += 25) await clock.advance(25);
  expect(handled.map(({ name }) => name)).toEqual(["overdue", "soon", "later"]);
  const late = handled.map(({ atMs }) => atMs - beganMs);
  expect(late[1]).toBeGreaterThanOrEqual(400);
  expect(late[1]).toBeLessThanOrEqual(475);
  expect(late[2]).toBeGreaterThanOrEqual(2_600);
  expect(late[2]).toBeLessThanOrEqual(2_675);
  await stop();
});

test("whoever is left out for a while is looked for when that is over, not at the next poll", async () => {
  const clock = manualClock();
  const beganMs = clock.now();
  const leftOutMs = 300;
  const items = [{ name: "overdue", at: new Date(beganMs - 5).toISOString() }];
  const { handled, stop } = sweep(clock, items, {
    isLeftOut: () => clock.now() < beganMs + leftOutMs,
    againMs: () => leftOutMs,
  });
  await clock.sleeping();
  expect(handled).toEqual([]);
  await clock.advance(299);
  expect(handled).toEqual([]);
  await clock.advance(1);
  expect(handled).toEqual([{ name: "overdue", atMs: beganMs + 300 }]);
  await stop();
});
