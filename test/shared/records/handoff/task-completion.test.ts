// The completion of a task: it ends, or goes to the agent type that the policy names for phase `complete`.

import { uuidv7 } from "uuidv7";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { FinalStatus } from "../../../../shared/protocol/checkpoint.ts";
import type { Policies } from "../../../../shared/protocol/policy.ts";
import { acknowledge, handoffInput, initiate, offer, refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const completeTo = (type: string) => ({ next_agent: { by_next_phase: { complete: type } } });

/** Two types name each other. */
const policies: Policies = {
  defaults: completeTo("qa"),
  tenants: {
    default: {
      agent_types: { qa: completeTo("implementation"), architecture: { triggers: { task_complete: false } } },
    },
  },
};

describe.each(ENGINES)("the completion of a task on %s", (engine) => {
  let place: TestTasks;
  let task: string;
  beforeAll(async () => {
    place = await TestTasks.open(engine, policies);
  });
  afterEach(async () => {
    const { stored, replayed } = await place.replayed(task);
    expect(replayed).toEqual(stored);
  });
  afterAll(() => place.close());

  /** Writes a checkpoint in phase `complete` and finalizes it. */
  async function complete(agent: string, { type = "implementation", commandId = uuidv7() } = {}) {
    const { fence } = await place.head(task);
    const by = { task, agent, fence };
    const checkpoint = { ...input({ phase: "complete" }), metadata: { agent_type: type } };
    const { checkpoint_id: id } = await create(place.repository, { ...by, checkpoint });
    return finalize(place.repository, id, "succeeded", { ...by, commandId });
  }

  async function handedOff(): Promise<string> {
    task = await place.owned();
    const { handoff_id } = await complete("agent-1");
    return handoff_id as string;
  }

  async function accepted(): Promise<void> {
    await handedOff();
    await place.takeOver(task, "agent-2");
  }

  test("goes to another type in the transaction that finalizes the checkpoint, and a retry gets the same answer", async () => {
    task = await place.owned();
    const commandId = uuidv7();
    const answer = await complete("agent-1", { commandId });
    const { checkpoint_id: id } = answer;
    expect(answer).toMatchObject({ handoff_id: commandId, replayed: false });
    const by = { task, fence: 1, commandId };
    expect(await finalize(place.repository, id, "succeeded", by)).toEqual({ ...answer, replayed: true });
    expect(await place.head(task)).toMatchObject({
      state: "handing_off",
      handoff_id: commandId,
      owner: "agent-1",
      last_successful_id: id,
    });
    expect((await place.trail(task)).slice(-2)).toMatchObject([
      { op: "finalize", final_status: "succeeded", state_from: "active", state_to: "active" },
      { op: "handoff", command_id: commandId, state_from: "active", state_to: "handing_off" },
    ]);
    expect(await place.handoff(commandId)).toMatchObject({
      state: "requested",
      checkpoint_id: id,
      checkpoint_hash: answer.hash,
      from_agent: "agent-1",
      to_agent_type: "qa",
      next_phase: "complete",
      trigger: { reason: "task_complete" },
    });
    expect((await place.events(task)).slice(-2)).toEqual(["CHECKPOINT_FINALIZED", "AGENT_HANDOFF"]);
  });

  test("ends it at the next agent, even if two types name each other; an opened task is handed off again", async () => {
    await accepted();
    expect(await complete("agent-2", { type: "qa" })).not.toHaveProperty("handoff_id");
    expect(await place.head(task)).toMatchObject({ state: "completed", handoff_id: null, owner: "agent-2" });
    expect((await place.trail(task)).filter(({ op }) => op === "handoff")).toHaveLength(1);
    expect(await complete("agent-2", { type: "qa" })).toHaveProperty("handoff_id");
  });

  test("ends it at an agent to which the next one hands it back", async () => {
    await accepted();
    const back = { ...handoffInput(), metadata: { agent_type: "qa" } };
    const body = { checkpoint: back, handoff: { next_phase: "implementing" } };
    await send(place.repository, "create", body, { task, agent: "agent-2", fence: 2 });
    const { handoff_id: id } = await place.head(task);
    expect(await place.handoff(id as string)).toMatchObject({ to_agent_type: "implementation" });
    await place.takeOver(task, "agent-3");
    await complete("agent-3");
    expect(await place.head(task)).toMatchObject({ state: "completed", owner: "agent-3" });
  });

  test("is continued by the named type after a failure of the author", async () => {
    await handedOff();
    await send(place.repository, "cancel_handoff", {}, { task, fence: 1 });
    await place.fail(task, { agent_type: "implementation" });
    const { recovery } = await place.head(task);
    expect(recovery).toMatchObject({ choice: { to_agent_type: "implementation" }, to_agent_type: null });
    await place.attempt(task);
    const { handoff_id: id } = await place.head(task);
    expect(await place.handoff(id as string)).toMatchObject({
      next_phase: "complete",
      to_agent_type: "qa",
    });
  });

  test.each<[owner: string, before: string[]]>([
    ["had no owner", []],
    ["was released", ["take", "release"]],
  ])("ends the task when its handoff is cancelled and the task %s", async (_, commands) => {
    task = place.fresh();
    for (const op of commands as ("take" | "release")[]) {
      const { fence } = op === "take" ? { fence: undefined } : await place.head(task);
      await send(place.repository, op, {}, { task, ...(fence !== undefined && { fence }) });
    }
    const checkpoint = input({ phase: "complete" });
    const { checkpoint_id } = await create(place.repository, { task, checkpoint });
    const { handoff_id: id } = await finalize(place.repository, checkpoint_id, "succeeded", { task });
    await offer(place.repository, id as string);
    await send(place.repository, "cancel_handoff", { reason: "no review" }, { task, agent: "anna" });
    expect(await place.head(task)).toMatchObject({
      state: "completed",
      handoff_id: null,
      owner: null,
      last_successful_id: checkpoint_id,
    });
    expect(await place.handoff(id as string)).toMatchObject({
      state: "cancelled",
      failure: { reason: "withdrawn", details: "no review" },
    });
    expect((await place.trail(task)).at(-1)).toMatchObject({
      op: "cancel_handoff",
      ended_as: "completed",
      state_from: "handing_off",
      state_to: "completed",
    });
    // A new checkpoint opens the task again, and its completion is handed off again.
    expect(await complete("agent-1")).toHaveProperty("handoff_id");
  });

  test("ends the task when its handoff replaced a recovery and is cancelled", async () => {
    for (const bring of [() => place.attempted(), () => place.spent()]) {
      task = await bring();
      await complete("operator");
      const { owner, state } = await place.head(task);
      expect({ owner, state }).toEqual({ owner: null, state: "handing_off" });
      await send(place.repository, "cancel_handoff", {}, { task, agent: "anna" });
      expect(await place.head(task)).toMatchObject({ state: "completed", recovery: { state: "idle" } });
      const { stored, replayed } = await place.replayed(task);
      expect(replayed).toEqual(stored);
    }
  });

  test("leaves the task active when its handoff is cancelled after newer work, or by the owner", async () => {
    task = place.fresh();
    const checkpoint = input({ phase: "complete" });
    const { checkpoint_id } = await create(place.repository, { task, checkpoint });
    await finalize(place.repository, checkpoint_id, "succeeded", { task });
    await place.write(task, "agent-1", {});
    await send(place.repository, "cancel_handoff", {}, { task });
    expect(await place.head(task)).toMatchObject({ state: "active", handoff_id: null });

    await handedOff();
    await send(place.repository, "cancel_handoff", {}, { task, fence: 1 });
    expect(await place.head(task)).toMatchObject({ state: "active", owner: "agent-1" });
  });

  test.each<[string, { type?: string; phase?: "testing"; status?: FinalStatus }, string]>([
    ["the trigger is off for the type", { type: "architecture" }, "completed"],
    ["the checkpoint is in another phase", { phase: "testing" }, "active"],
    ["the work failed", { status: "failed" }, "failed"],
    ["the work is cancelled", { status: "cancelled" }, "cancelled"],
  ])("goes to no other type if %s", async (_, given, state) => {
    const { type = "implementation", phase = "complete", status = "succeeded" } = given;
    task = place.fresh();
    const checkpoint = { ...input({ phase }), metadata: { agent_type: type } };
    const { checkpoint_id: id } = await create(place.repository, { task, checkpoint });
    expect(await finalize(place.repository, id, status, { task })).not.toHaveProperty("handoff_id");
    expect(await place.head(task)).toMatchObject({ state, handoff_id: null });
  });

  test("is not repeated by another draft that is finalized after the end", async () => {
    task = place.fresh();
    const drafts = [];
    for (let n = 0; n < 2; n += 1)
      drafts.push(await create(place.repository, { task, checkpoint: input({ phase: "complete" }) }));
    await finalize(place.repository, drafts[0]?.checkpoint_id ?? "", "cancelled", { task });
    const late = finalize(place.repository, drafts[1]?.checkpoint_id ?? "", "succeeded", { task });
    await expect(late).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await place.head(task)).toMatchObject({ state: "cancelled", handoff_id: null });
  });

  test("is refused for an older checkpoint, by any caller, and changes nothing", async () => {
    task = await place.owned();
    const draft = await place.write(task, "agent-1", { phase: "complete" });
    const newest = await place.write(task, "agent-1", { completed: 2 });
    const before = await place.head(task);
    for (const agent of ["agent-1", "a-tool"])
      expect(
        await refusal(
          finalize(place.repository, draft.checkpoint_id, "succeeded", { task, agent, fence: 1 }),
        ),
      ).toMatchObject({
        code: "CONFLICT",
        message: "only the newest checkpoint can complete the task",
        details: { task_id: task, checkpoint_id: draft.checkpoint_id, latest_id: newest.checkpoint_id },
      });
    expect(await place.head(task)).toEqual(before);
  });

  test.each<[phase: "testing" | "complete", status: FinalStatus, state: string]>([
    ["testing", "succeeded", "active"],
    ["complete", "handed_off", "active"],
    ["complete", "failed", "failed"],
    ["complete", "cancelled", "cancelled"],
  ])("leaves an older checkpoint in phase %s free to be finalized as %s", async (phase, status, state) => {
    task = await place.owned();
    const draft = await place.write(task, "agent-1", { phase });
    await place.write(task, "agent-1", { completed: 2 });
    await finalize(place.repository, draft.checkpoint_id, status, { task, fence: 1 });
    expect(await place.head(task)).toMatchObject({ state, handoff_id: null });
  });

  test("leaves an older checkpoint in phase complete to the writer, as superseded", async () => {
    task = await place.owned();
    const draft = await place.write(task, "agent-1", { phase: "complete" });
    await place.write(task, "agent-1", { completed: 2 });
    await place.sweepAllDrafts();
    expect((await place.trail(task)).at(-1)).toMatchObject({
      op: "finalize",
      checkpoint_id: draft.checkpoint_id,
      final_status: "superseded",
      state_to: "active",
    });
  });

  test("replaces an open handoff and a recovery", async () => {
    task = await place.owned();
    const draft = await place.write(task, "agent-1", { phase: "complete" });
    const by = { task, fence: 1 };
    const { handoff_id: first } = await initiate(place.repository, by);
    const { handoff_id: id } = await finalize(place.repository, draft.checkpoint_id, "succeeded", by);
    expect(await place.handoff(first)).toMatchObject({
      state: "cancelled",
      failure: { reason: "superseded", details: id },
    });
    expect(await place.head(task)).toMatchObject({ state: "handing_off", handoff_id: id });

    task = await place.attempted();
    await complete("operator");
    expect(await place.head(task)).toMatchObject({ state: "handing_off", recovery: { state: "idle" } });
  });

  test("waits for an operator if no agent accepts, and a new completion of the owner ends the task", async () => {
    const id = await handedOff();
    await offer(place.repository, id);
    await place.escalate(id);
    expect(await place.head(task)).toMatchObject({ state: "blocked", blocked: { reason: "no_agent" } });
    await complete("agent-1");
    expect(await place.head(task)).toMatchObject({ state: "completed" });
  });

  test("can be repeated by the owner while the offer is open, which ends the task", async () => {
    const id = await handedOff();
    await complete("agent-1");
    expect(await place.head(task)).toMatchObject({ state: "completed", handoff_id: null });
    expect(await place.handoff(id)).toMatchObject({ state: "cancelled", failure: { reason: "task_ended" } });
  });

  test("stays with the named type if its agent fails before its first checkpoint", async () => {
    await accepted();
    await place.fail(task);
    const { point, nextPhase } = await place.repository.recoveryPoint("default", {
      ...{ task_id: task, force: false },
    });
    expect(point.checkpoint?.metadata.agent_id).toBe("agent-1");
    expect(nextPhase).toBe("complete");
    await place.attempt(task);
    const { handoff_id: attempt } = await place.head(task);
    expect(await place.handoff(attempt as string)).toMatchObject({
      to_agent_type: "qa",
      next_phase: "complete",
      recovery: { attempt: 1 },
    });
    await place.takeOver(task, "agent-3");
    await complete("agent-3", { type: "qa" });
    expect(await place.head(task)).toMatchObject({ state: "completed" });
  });

  test("names no type before an attempt whose type the policy decides", async () => {
    await handedOff();
    await send(place.repository, "recover", { force: true }, { task, agent: "anna" });
    expect((await place.head(task)).recovery).toMatchObject({ state: "waiting", to_agent_type: null });
    await place.attempt(task);
    const { handoff_id: attempt } = await place.head(task);
    expect(await place.handoff(attempt as string)).toMatchObject({ to_agent_type: "qa" });
  });

  test("is handed off again if a recovery starts from an earlier checkpoint", async () => {
    await accepted();
    const { checkpoints } = await place.repository.history("default", {
      ...{ task_id: task, order: "oldest", limit: 1, versions: "latest" },
    } as never);
    const earlier = checkpoints[0]?.metadata.checkpoint_id;
    await send(place.repository, "recover", { checkpoint_id: earlier, force: true }, { task });
    await place.attempt(task);
    const { handoff_id: attempt } = await place.head(task);
    expect(await place.handoff(attempt as string)).toMatchObject({
      to_agent_type: "implementation",
      next_phase: null,
    });
    const offered = await offer(place.repository, attempt as string, { toAgentType: "implementation" });
    await acknowledge(place.repository, offered, { agent: "agent-3" });
    expect(await complete("agent-3")).toHaveProperty("handoff_id");
  });
});
