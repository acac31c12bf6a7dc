// Work in turns: never more at a time than allowed, in the order of coming, and a failure gives its place back.

import { expect, test } from "vitest";
import { takeTurns } from "../../../services/coordinator/turns.ts";

test("so many at a time, in their order, whether they succeed or not", async () => {
  const inTurn = takeTurns(2);
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  let [busy, most] = [0, 0];
  const works = Array.from({ length: 7 }, (_, n) =>
    inTurn(async () => {
      begun.push(n);
      busy += 1;
      most = Math.max(most, busy);
      await new Promise<void>((resolve) => ends.push(resolve));
      busy -= 1;
      if (n % 2 === 1) throw new RangeError(`work ${n}`);
      return n;
    }),
  );
  const settled = Promise.allSettled(works);
  for (let n = 0; n < works.length; n += 1) {
    await expect.poll(() => ends.length).toBeGreaterThan(n);
    expect(begun.length).toBeLessThanOrEqual(n + 2);
    ends[n]?.();
  }
  expect((await settled).map(({ status }) => status)).toEqual(
    works.map((_, n) => (n % 2 === 1 ? "rejected" : "fulfilled")),
  );
  expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(most).toBe(2);
});
