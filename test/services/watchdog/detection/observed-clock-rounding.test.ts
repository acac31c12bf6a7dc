/** The arithmetic of attentive time. */
import { expect, test } from "vitest";
import { AttentiveTime } from "../../../../services/watchdog/detection/observed-clock.ts";

test("what is lost never shrinks, whatever the clock's fractions", () => {
  const time = new AttentiveTime(0.1);
  let at = 0.1;
  let before = 0;
  for (let i = 0; i < 10_000; i += 1) {
    at += 100.000_1 + i / 7_777;
    time.tick(at);
    expect(time.lost).toBeGreaterThanOrEqual(before);
    before = time.lost;
  }
  time.tick(at + 5_000);
  expect(time.lost - before).toBeCloseTo(4_800);
});
