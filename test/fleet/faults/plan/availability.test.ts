/** The availability counts the seconds with an answered write, by the kinds of the faults in them. */
import { expect, test } from "vitest";
import type { CallAttempt } from "../agents/history.ts";
import { ALL_SECONDS, availabilitiesOf, type FaultPeriod, WITHOUT_FAULT } from "./availability.ts";

const SECOND_US = 1_000_000;
const BEGIN = 7 * SECOND_US;

/** An attempt that ends at this second of the round. */
const answered = (second: number, facts: Partial<CallAttempt> = {}): CallAttempt => {
  const end = BEGIN + second * SECOND_US;
  const call = { call: `${second}`, op: "create", agent: "a", task: "t", begin: end - 1, end } as const;
  return { ...call, outcome: "committed", ...facts };
};
const fault = (kind: string, begin: number, end: number): FaultPeriod => ({
  ...{ kind, begin: BEGIN + begin * SECOND_US, end: BEGIN + end * SECOND_US },
});
const round = (seconds: number) => ({ begin: BEGIN, end: BEGIN + seconds * SECOND_US });

test("a second without an answered write is not available", () => {
  const attempts = [answered(0.2), answered(1.5, { outcome: "queued" }), answered(1.6), answered(4.5)];
  const { [ALL_SECONDS]: all } = availabilitiesOf(attempts, [], round(5));
  expect(all).toEqual({ seconds: 5, answered: 3, longest_gap_ms: 2_900 });
});

test("reads, spooled commands, lost answers and unavailable services are no answers; a refusal is one", () => {
  const attempts = [
    answered(0.5, { op: "get", outcome: "read" }),
    answered(1.5, { outcome: "spooled" }),
    answered(2.5, { outcome: "unknown" }),
    answered(3.5, { outcome: "refused", code: "UNAVAILABLE" }),
    answered(4.5, { outcome: "refused", code: "CONFLICT" }),
  ];
  const { [ALL_SECONDS]: all } = availabilitiesOf(attempts, [], round(5));
  expect(all).toMatchObject({ answered: 1, longest_gap_ms: 4_500 });
});

test("a second counts for each kind of fault in it and shortly before it", () => {
  const attempts = Array.from({ length: 20 }, (_, second) => answered(second + 0.5)).filter(
    (_, second) => second < 4 || second > 6,
  );
  const faults = [fault("kill_bus_server", 4, 5), fault("kill_bus_leader", 12, 13)];
  const found = availabilitiesOf(attempts, faults, round(20));
  expect(found[ALL_SECONDS]).toMatchObject({ seconds: 20, answered: 17 });
  expect(found.kill_bus_server).toMatchObject({ seconds: 4, answered: 1, longest_gap_ms: 4_000 });
  expect(found.kill_bus_leader).toMatchObject({ seconds: 4, answered: 4, longest_gap_ms: 1_000 });
  expect(found[WITHOUT_FAULT]).toMatchObject({ seconds: 12, answered: 12, longest_gap_ms: 1_000 });
});

test("a round without an answer has one gap", () => {
  const { [ALL_SECONDS]: all } = availabilitiesOf([], [], round(3));
  expect(all).toEqual({ seconds: 3, answered: 0, longest_gap_ms: 3_000 });
});
