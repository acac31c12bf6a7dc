// The tokenizer is loaded once the coordinator is up, and never after it has stopped.

import { expect, test } from "vitest";
import { startTokenizerLoad } from "../../../services/coordinator/tokenizer-load.ts";
import { manualClock } from "../../harness/clock.ts";

test.each([
  ["loads the tokenizer once, after a moment", false, 1],
  ["loads nothing after a stop", true, 0],
])("%s", async (_, isStopped, expected) => {
  const clock = manualClock();
  let loads = 0;
  const stop = startTokenizerLoad(clock, () => {
    loads += 1;
  });
  await clock.advance(100);
  expect(loads).toBe(0);
  if (isStopped) await stop();
  await clock.advance(10_000);
  expect(loads).toBe(expected);
  await stop();
});
