// The index leaves a busy thread to the requests, but not for as long as a load lasts.

import { expect, test } from "vitest";
import { createIndexPace } from "../../../services/reader/followers/index-leader.ts";

const full = { followed: 256, more: true, rebuilding: false };
const last = { followed: 7, more: false, rebuilding: false };

test("an index that stays behind rests less and less, until it has caught up", () => {
  const pace = createIndexPace();
  const factors = [pace.pauseFactor()];
  for (const step of [full, full, full, full, full, last, full]) {
    pace.note(step);
    factors.push(pace.pauseFactor());
  }
  expect(factors).toEqual([4, 2, 1, 0.5, 0.25, 0.25, 4, 2]);
});

test("a rebuild and the removal of words leave the time to the requests", () => {
  const pace = createIndexPace();
  for (let n = 0; n < 5; n += 1) {
    pace.note({ ...full, rebuilding: true });
    pace.note({ ...full, followed: 0 });
  }
  expect(pace.pauseFactor()).toBe(4);
});
