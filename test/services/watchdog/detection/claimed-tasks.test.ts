// What is asked of the store about agents that say that they have tasks, and what is remembered of those who lie.

import { afterEach, beforeEach, expect, test } from "vitest";
import { Claims } from "../../../../services/watchdog/detection/claimed-tasks.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Heard } from "../../../../shared/service-host/heartbeat-subscription.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

let place: TestTasks;
beforeEach(async () => {
  place = await TestTasks.open("memory");
});
afterEach(() => place.close());

const heard = (agent: string): Heard => ({
  tenant: "default",
  beat: { agent_id: agent, agent_type: "qa", state: "working", sent_at: "2026-01-24T10:00:00.000Z" },
  firstAt: 0,
  lastAt: 0,
  stepEndsAt: null,
});
const namesOf = (claims: readonly { agentId: string }[]) => claims.map(({ agentId }) => agentId);

test("the owner of a task is told from who only says so, and is not asked about again", async () => {
  const task = await place.owned();
  const claims = new Claims();
  claims.hear(heard("liar"), task, 1, 0);
  claims.hear(heard("agent-1"), task, 1, 0);
  const settled = await claims.settle(place.repository, claims.due(0), 0);
  expect(namesOf(settled)).toEqual(["agent-1"]);
  expect(namesOf(claims.due(10_000))).toEqual(["liar"]);
});

test("a flood of agents that there are not is forgotten, the oldest first, and one that there is is found behind it", async () => {
  const task = await place.owned();
  const claims = new Claims();
  const flood = LIMITS.agents_remembered_count_max + 1_000;
  for (let i = 0; i < flood; i += 1) claims.hear(heard(`flood-${i}`), `task-${i}`, 1, 0);
  claims.hear(heard("agent-1"), task, 1, 0);
  const found: string[] = [];
  let asked = 0;
  for (let due = claims.due(0); due.length > 0; due = claims.due(0)) {
    asked += due.length;
    found.push(...namesOf(await claims.settle(place.repository, due, 0)));
  }
  expect(asked).toBe(LIMITS.agents_remembered_count_max);
  expect(found).toEqual(["agent-1"]);
});

test("whoever says something new does not wait behind those whose word was not true", async () => {
  const task = await place.owned();
  const claims = new Claims();
  for (let i = 0; i < 2_000; i += 1) claims.hear(heard(`flood-${i}`), `task-${i}`, 1, 0);
  for (let due = claims.due(0); due.length > 0; due = claims.due(0))
    await claims.settle(place.repository, due, 0);
  expect(claims.due(1_000)).toHaveLength(500);
  claims.hear(heard("agent-1"), task, 1, 1_000);
  expect(namesOf(claims.due(1_000))[0]).toBe("agent-1");
});
