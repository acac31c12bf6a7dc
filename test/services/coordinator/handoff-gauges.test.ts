import { expect, test } from "vitest";
import { successRateOf } from "../../../services/coordinator/handoff-gauges.ts";

const NONE = {
  requested: 0,
  validated: 0,
  offered: 0,
  accepted: 0,
  confirmed: 0,
  rejected: 0,
  escalated: 0,
  cancelled: 0,
  lapsed: 0,
};

test("the rate is unknown until a handoff has succeeded or failed", () => {
  expect(successRateOf(NONE)).toBeNull();
  expect(successRateOf({ ...NONE, accepted: 2, cancelled: 3 })).toBeNull();
});

test("a cancelled handoff does not lower the rate, and every failed one does", () => {
  expect(successRateOf({ ...NONE, confirmed: 2, cancelled: 5, offered: 7 })).toBe(1);
  expect(successRateOf({ ...NONE, confirmed: 1, rejected: 1, escalated: 1, lapsed: 1 })).toBe(0.25);
});
