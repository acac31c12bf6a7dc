// Operators' requests for a recovery: from a chosen checkpoint, with the whole budget, or by force.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../../shared/protocol/policy.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { ENGINES, finalize, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { flip } from "../search/corpus.ts";

const SILENCE_MS = DEFAULT_POLICY.recovery.silence_ms;

describe.each(ENGINES)("a request for a recovery on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  const recover = (task: string, options: Record<string, unknown> = {}, commandId = uuidv7()) =>
    send(place.repository, "recover", options, { task, agent: "operator-1", commandId });
  const firstOf = async (task: string) =>
    (await place.repository.history("default", { task_id: task, order: "oldest", limit: 1 })).checkpoints[0]
      ?.metadata.checkpoint_id as string;

  test("a blocked task gets one more attempt at once, even with a spent budget", async () => {
    const task = await place.spent();
    const answer = await recover(task, { reason: "the vendor is back" });
    const { fence } = await place.head(task);
    expect(answer).toMatchObject({ task_id: task, recovery: "waiting", checkpoint_id: null, fence });
    expect(await place.recovery(task)).toMatchObject({
      ...{ state: "waiting", attempts: 5, blocked: null },
      choice: { reason: "the vendor is back", by: "operator-1" },
    });
    await place.attempt(task);
    const { handoff_id } = await place.head(task);
    const { reason } = await place.handoff(handoff_id as string);
    expect(reason).toMatch(/^attempt 6 after agent-6 failed: crash, the vendor is back$/);
    await place.takeOver(task, "agent-9");
    await place.fail(task);
    expect(await place.recovery(task)).toMatchObject({ state: "blocked", attempts: 6 });
  });

  test("reset restores the whole budget, including the window", async () => {
    const task = await place.spent();
    await recover(task, { reset: true });
    expect(await place.recovery(task)).toMatchObject({
      ...{ state: "waiting", attempts: 0, failures: 0, rung: "latest", rung_attempts: 0 },
      ...{ recent: [], avoid_id: null },
    });
    await place.attempt(task);
    await place.takeOver(task, "agent-9");
    await place.fail(task);
    expect(await place.recovery(task)).toMatchObject({ state: "waiting", attempts: 1, failures: 1 });
    // The next attempts are the policy's, not the operator's.
    expect((await place.recovery(task)).choice?.by ?? null).toBeNull();
  });

  test("a requested attempt does not wait for the backoff", async () => {
    const task = await place.resumed();
    await place.fail(task);
    expect(Date.parse((await place.recovery(task)).due_at ?? "")).toBeGreaterThan(place.now);
    await recover(task);
    expect(Date.parse((await place.recovery(task)).due_at ?? "")).toBe(place.now);
  });

  test("an operator chooses the checkpoint and the agent type", async () => {
    const task = await place.spent(3);
    const checkpoint_id = await firstOf(task);
    await recover(task, { checkpoint_id, to_agent_type: "writer" });
    await place.attempt(task);
    const { handoff_id } = await place.head(task);
    expect(await place.handoff(handoff_id as string)).toMatchObject({
      checkpoint_id,
      to_agent_type: "writer",
    });
  });

  test("the ownership of a silent owner is revoked, even without a recorded failure", async () => {
    const task = await place.owned();
    place.now += SILENCE_MS;
    const { fence } = await recover(task);
    expect(fence).toBe(2);
    expect(await place.recovery(task)).toMatchObject({
      state: "waiting",
      failures: 0,
      failure: { signal: "request", agent_id: "agent-1", fence: 1 },
    });
    await place.attempt(task);
    const { handoff_id } = await place.head(task);
    expect(await place.handoff(handoff_id as string)).toMatchObject({
      reason: "requested",
      recovery: { attempt: 1, class: null },
    });
  });

  test("a living agent keeps its task, except with force", async () => {
    const task = await place.owned();
    expect(await refusal(recover(task))).toMatchObject({
      code: "CONFLICT",
      details: {
        owner: "agent-1",
        fence: 1,
        alive_until: new Date(place.now + SILENCE_MS).toISOString(),
      },
    });
    place.now += SILENCE_MS;
    const until = place.now + 1_000;
    await place.repository.recoveryActions.renewLeases([
      { tenant: "default", task, fence: 1, agentId: "agent-1", agentType: "qa", lapsesAt: until },
    ]);
    expect((await refusal(recover(task))).details).toMatchObject({
      alive_until: new Date(until).toISOString(),
    });
    expect(await recover(task, { force: true })).toMatchObject({ fence: 2 });
    expect((await refusal(place.write(task, "agent-1", { fence: 1 }))).code).toBe("FENCED");
  });

  test("an open handoff is cancelled", async () => {
    const { task, id } = await place.offered();
    await recover(task, { force: true });
    expect(await place.handoff(id)).toMatchObject({ state: "cancelled", failure: { reason: "superseded" } });
    expect(await place.head(task)).toMatchObject({ state: "active", handoff_id: null, owner: null });
  });

  test("a repeated command has one effect", async () => {
    const task = await place.spent();
    const commandId = uuidv7();
    const first = await recover(task, {}, commandId);
    const before = await place.head(task);
    expect(await recover(task, {}, commandId)).toMatchObject({ ...first, replayed: true });
    expect(await place.head(task)).toEqual(before);
  });

  test("an ended task is never restarted", async () => {
    const task = await place.resumed();
    const { latest_id, fence } = await place.head(task);
    await finalize(place.repository, latest_id as string, "failed", { task, agent: "agent-2", fence });
    expect(await refusal(recover(task, { force: true, reset: true }))).toMatchObject({
      code: "CONFLICT",
      details: { state: "failed" },
    });
  });

  test("an unknown task or checkpoint is NOT_FOUND", async () => {
    expect((await refusal(recover("nowhere"))).code).toBe("NOT_FOUND");
    const taken = place.fresh();
    await send(place.repository, "take", {}, { task: taken });
    expect((await refusal(recover(taken, { force: true }))).code).toBe("NOT_FOUND");
    const task = await place.spent();
    expect((await refusal(recover(task, { checkpoint_id: uuidv7() }))).code).toBe("NOT_FOUND");
    const foreign = await firstOf(await place.owned());
    expect((await refusal(recover(task, { checkpoint_id: foreign }))).code).toBe("NOT_FOUND");
  });

  test("a corrupt checkpoint is refused and quarantined", async () => {
    const task = await place.spent();
    const id = await firstOf(task);
    await flip(place.store, task, id);
    expect((await refusal(recover(task, { checkpoint_id: id }))).code).toBe("CORRUPT");
    expect(place.corrupt.map(({ checkpoint_id }) => checkpoint_id)).toContain(id);
    expect((await place.recovery(task)).state).toBe("blocked");
  });
});
