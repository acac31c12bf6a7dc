// Which claims of ownership are checked against the store, and how long false ones are remembered.

import { afterEach, beforeEach, expect, test } from "vitest";
import { OwnershipClaims } from "../../../../services/watchdog/detection/ownership-claims.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { LatestHeartbeat } from "../../../../shared/service-host/heartbeat-subscription.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

let place: TestTasks;
beforeEach(async () => {
  place = await TestTasks.open("memory");
});
afterEach(() => place.close());

const heard = (agent: string): LatestHeartbeat => ({
  tenant: "default",
  beat: { agent_id: agent, agent_type: "qa", state: "working", sent_at: "2026-01-24T10:00:00.000Z" },
  firstAt: 0,
  lastAt: 0,
  stepEndsAt: null,
});
const namesOf = (claims: readonly { agentId: string }[]) => claims.map(({ agentId }) => agentId);

test("the claim of the owner is confirmed and not checked again, a false one is denied and kept", async () => {
  const task = await place.owned();
  const claims = new OwnershipClaims();
  claims.add(heard("liar"), task, 1, 0);
  claims.add(heard("agent-1"), task, 1, 0);
  const confirmed = await claims.check(place.repository, claims.due(0), 0);
  expect(namesOf(confirmed)).toEqual(["agent-1"]);
  expect(namesOf(claims.due(10_000))).toEqual(["liar"]);
});

test("of a flood of false claims the oldest are forgotten, and the owner behind them is found", async () => {
  const task = await place.owned();
  const claims = new OwnershipClaims();
  const flood = LIMITS.agents_remembered_count_max + 1_000;
  for (let i = 0; i < flood; i += 1) claims.add(heard(`flood-${i}`), `task-${i}`, 1, 0);
  claims.add(heard("agent-1"), task, 1, 0);
  const found: string[] = [];
  let asked = 0;
  for (let due = claims.due(0); due.length > 0; due = claims.due(0)) {
    asked += due.length;
    found.push(...namesOf(await claims.check(place.repository, due, 0)));
  }
  expect(asked).toBe(LIMITS.agents_remembered_count_max);
  expect(found).toEqual(["agent-1"]);
});

test("a new claim does not wait behind denied ones", async () => {
  const task = await place.owned();
  const claims = new OwnershipClaims();
  for (let i = 0; i < 2_000; i += 1) claims.add(heard(`flood-${i}`), `task-${i}`, 1, 0);
  for (let due = claims.due(0); due.length > 0; due = claims.due(0))
    await claims.check(place.repository, due, 0);
  expect(claims.due(1_000)).toHaveLength(500);
  claims.add(heard("agent-1"), task, 1, 1_000);
  expect(namesOf(claims.due(1_000))[0]).toBe("agent-1");
});
