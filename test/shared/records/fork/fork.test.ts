/** A fork: a new task with the state of a checkpoint of another task, recorded in both trails in one transaction. */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { continuationPrompt } from "../../../../shared/prompts/continuation.ts";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import type { FleetError } from "../../../../shared/protocol/errors.ts";
import type { TaskState } from "../../../../shared/protocol/task.ts";
import { encode } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Bytes, Tx } from "../../../../shared/store/store.ts";
import { handoffInput } from "../../../harness/records/handoffs.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  type SendOptions,
  send,
} from "../../../harness/records/records.ts";
import { noteFailure } from "../../../harness/records/recoveries.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const keys = tenantKeys("default");
const DAY_MS = 86_400_000;

describe.each(ENGINES)("a fork on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  const fork = (source: string, task: string, body: object = {}, by: SendOptions = {}) =>
    send(place.repository, "fork", { source_task_id: source, ...body }, { agent: "forker", task, ...by });
  const get = (id: string) => place.repository.get("default", id);
  const edit = (change: (tx: Tx) => Promise<unknown>) => place.store.transact(WRITE, change);
  const refusal = (promise: Promise<unknown>): Promise<FleetError> =>
    promise.then(
      () => {
        throw new Error("the command was not refused");
      },
      (error) => error,
    );
  /** Changes a byte of the checkpoint's row. */
  const damage = (task: string, id: string) =>
    edit(async (tx) => {
      const value = Uint8Array.from((await tx.get(keys.checkpoint(task, id))) as Bytes);
      value[value.length - 20]! ^= 1;
      tx.set(keys.checkpoint(task, id), value);
    });
  const found = async () =>
    (await scrub(place)).findings
      .filter(({ kind }) => kind !== "event")
      .map(({ task_id, kind, details }) => ({ task_id, kind, details }));

  /** A task with an owner and rich state. */
  async function source(task = "source"): Promise<{ task: string; id: string }> {
    await send(place.repository, "take", {}, { task, agent: "anna" });
    const checkpoint = input({
      goal: "log people in",
      resume_pointer: { next_action: "Write the test of the login" },
      side_effects: [{ id: "mail", description: "send the mail", state: "claimed" }],
    });
    checkpoint.context_summary = { key_decisions: [{ decision: "sessions", rationale: "simple" }] };
    checkpoint.metrics = { tokens_consumed: 90_000, tools_invoked: 7, model: "large" };
    checkpoint.recovery = { continuation_prompt: "Continue with the login", previous_agents: ["zoe"] };
    const by = { task, agent: "anna", fence: 1 };
    return { task, id: (await create(place.repository, { ...by, checkpoint })).checkpoint_id };
  }

  test("has the state of the newest sound checkpoint, with metrics of its own", async () => {
    const { id } = await source();
    const origin = await get(id);
    const answer = await fork("source", "fork", { note: "try OAuth", goal: "log people in by OAuth" });
    expect(answer).toMatchObject({ task_id: "fork", version: 1, seq: 1, replayed: false });
    expect(answer.forked_from).toEqual({
      task_id: "source",
      checkpoint_id: id,
      version: 1,
      hash: origin.compliance.hash,
      entry: 3,
    });
    const forked = await get(answer.checkpoint_id);
    expect(forked.metadata).toMatchObject({
      task_id: "fork",
      agent_id: "forker",
      agent_type: "implementation",
      parent_ids: [],
      status: "draft",
      iteration: 1,
      trigger: { reason: "manual", details: "try OAuth" },
      forked_from: answer.forked_from,
    });
    expect(forked.execution_state).toEqual({ ...origin.execution_state, goal: "log people in by OAuth" });
    expect(forked.context_summary).toEqual(origin.context_summary);
    expect(forked.metrics).toEqual({ tokens_consumed: 0, tools_invoked: 0, files_modified: [] });
    expect(forked.recovery).toEqual({
      continuation_prompt: "Continue with the login",
      previous_agents: ["zoe", "anna"],
    });
    expect((await place.repository.latest("default", "fork")).checkpoint).toEqual(forked);
    expect(await found()).toEqual([]);
  });

  test("is recorded in both trails, and changes neither owner, fence nor last activity of the source", async () => {
    const { id } = await source();
    const before = await place.head("source");
    place.now += 60_000;
    const { checkpoint_id, command_id } = await fork("source", "fork");
    const { audit_seq, audit_hash, ...after } = await place.head("source");
    expect({ ...before, audit_seq, audit_hash }).toEqual({ ...after, audit_seq, audit_hash });
    expect(audit_seq).toBe(before.audit_seq + 1);
    expect((await place.trail("source")).at(-1)).toMatchObject({
      op: "fork",
      actor: { id: "forker", type: "agent" },
      command_id,
      checkpoint_id: id,
      new_hash: null,
      fork_task: "fork",
      fork_checkpoint: checkpoint_id,
    });
    expect(await place.trail("fork")).toEqual([
      expect.objectContaining({ op: "create", command_id, source_task: "source", source_checkpoint: id }),
    ]);
    expect((await place.events("source")).at(-1)).toBe("TASK_FORKED");
    expect((await place.outbox("fork")).map(({ event }) => event)).toEqual([
      expect.objectContaining({
        type: "CHECKPOINT_CREATED",
        data: {
          checkpointId: checkpoint_id,
          taskId: "fork",
          agentId: "forker",
          forkedFrom: { taskId: "source", checkpointId: id },
        },
      }),
    ]);
    for (const task of ["source", "fork"]) {
      const { stored, replayed } = await place.replayed(task);
      expect(replayed).toEqual(stored);
    }
  });

  const STATES: readonly [how: string, TaskState, bring: (task: string) => Promise<unknown>][] = [
    [
      "handing off",
      "handing_off",
      (task) => create(place.repository, { task, fence: 1, agent: "anna", checkpoint: handoffInput() }),
    ],
    [
      "ended",
      "cancelled",
      async (task) => {
        const { latest_id } = await place.head(task);
        return finalize(place.repository, latest_id!, "cancelled", { task, fence: 1, agent: "anna" });
      },
    ],
    ["recovering", "active", (task) => noteFailure(place.repository, task)],
    ["blocked", "blocked", (task) => noteFailure(place.repository, task, { class: "unrecoverable" })],
    [
      "released",
      "active",
      (task) => send(place.repository, "release", {}, { task, fence: 1, agent: "anna" }),
    ],
  ];
  test.each(STATES)(
    "is possible of a task that is %s, and requests no handoff",
    async (_how, state, bring) => {
      await source();
      await bring("source");
      const before = await place.head("source");
      expect(before.state).toBe(state);
      const { checkpoint_id } = await fork("source", "fork");
      expect((await get(checkpoint_id)).execution_state.phase).not.toBe("handoff");
      expect(await place.head("fork")).toMatchObject({
        state: "active",
        owner: null,
        fence: 0,
        handoff_id: null,
      });
      const { owner, fence, handoff_id, updated_at } = before;
      expect(await place.head("source")).toMatchObject({ state, owner, fence, handoff_id, updated_at });
      expect(await found()).toEqual([]);
    },
  );

  test("can begin with an earlier checkpoint, and keeps its origin through later versions", async () => {
    const { id } = await source();
    await create(place.repository, { task: "source", agent: "anna", fence: 1 });
    const { checkpoint_id, forked_from } = await fork("source", "fork", { source_checkpoint_id: id });
    expect(forked_from).toMatchObject({ checkpoint_id: id });
    const patch = { execution_state: { current_focus: "OAuth" } };
    await send(place.repository, "update", { checkpoint_id, patch }, { task: "fork" });
    await finalize(place.repository, checkpoint_id, "succeeded", { task: "fork" });
    const forked = await get(checkpoint_id);
    expect(forked.metadata.forked_from).toEqual(forked_from);
    const next = await create(place.repository, { task: "fork", checkpoint: forkedInput(forked) });
    const { metadata } = await get(next.checkpoint_id);
    expect(metadata.parent_ids).toEqual([checkpoint_id]);
    expect(metadata.forked_from).toBeUndefined();
    expect(await found()).toEqual([]);
  });

  /** The checkpoint as an agent that read it writes it again. */
  const forkedInput = ({ metadata, execution_state }: Checkpoint) => {
    const { checkpoint_id: _id, parent_ids: _parents, agent_id: _agent, ...rest } = metadata;
    return { metadata: rest, execution_state };
  };

  test("cannot be given another origin by an agent", async () => {
    await source();
    const { checkpoint_id } = await fork("source", "fork");
    const patch = { metadata: { forked_from: { task_id: "other" } } };
    const error = await refusal(send(place.repository, "update", { checkpoint_id, patch }, { task: "fork" }));
    expect(error.code).toBe("INVALID");
  });

  test("is refused for a task that exists, for one that does not, and for a checkpoint of another one", async () => {
    const { id } = await source();
    await place.owned(1);
    expect((await refusal(fork("source", "source"))).code).toBe("CONFLICT");
    expect((await refusal(fork("nothing", "nothing"))).code).toBe("NOT_FOUND");
    expect((await refusal(fork("task-1", "fork", { source_checkpoint_id: id }))).code).toBe("NOT_FOUND");
    await send(place.repository, "take", {}, { task: "empty" });
    expect((await refusal(fork("empty", "fork"))).code).toBe("NOT_FOUND");
    expect((await refusal(fork("source", "empty"))).code).toBe("CONFLICT");
    expect((await refusal(fork("source", "fork", {}, { tenant: "other" }))).code).toBe("NOT_FOUND");
    expect(await place.trail("source")).toHaveLength(2);
  });

  test("has one effect and one answer for any number of copies", async () => {
    await source();
    const commandId = uuidv7();
    const copies = Array.from({ length: 5 }, () => fork("source", "fork", {}, { commandId }));
    const answers = await Promise.all(copies);
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(new Set(answers.map(({ hash }) => hash)).size).toBe(1);
    expect(await place.trail("source")).toHaveLength(3);
    expect((await refusal(fork("source", "fork", { note: "another" }, { commandId }))).code).toBe("CONFLICT");
  });

  test("many forks in both directions, together with writes to their sources, are all applied", async () => {
    await source("a");
    await source("b");
    const work = Array.from({ length: 8 }, (_, i) => [
      fork("a", `b-${i}`),
      fork("b", `a-${i}`),
      create(place.repository, { task: i % 2 === 0 ? "a" : "b", agent: "anna", fence: 1 }),
      // The forks of one new task compete: one of them begins it.
      fork(i % 2 === 0 ? "a" : "b", "same").catch((error: FleetError) => expect(error.code).toBe("CONFLICT")),
    ]);
    await Promise.all(work.flat());
    const forks = [...(await place.trail("a")), ...(await place.trail("b"))].filter(
      ({ op }) => op === "fork",
    );
    expect(forks).toHaveLength(17);
    expect(await place.trail("same")).toHaveLength(1);
    expect(await found()).toEqual([]);
  });

  test("passes over a corrupt checkpoint of the source, and quarantines it", async () => {
    const { id } = await source();
    const newer = await create(place.repository, { task: "source", agent: "anna", fence: 1 });
    await damage("source", newer.checkpoint_id);
    const named = await refusal(fork("source", "fork", { source_checkpoint_id: newer.checkpoint_id }));
    expect(named.code).toBe("CORRUPT");
    expect((await place.trail("source")).at(-1)).toMatchObject({
      op: "quarantine",
      checkpoint_id: newer.checkpoint_id,
    });
    expect((await fork("source", "fork")).forked_from).toMatchObject({ checkpoint_id: id });
    await damage("source", id);
    expect((await refusal(fork("source", "other"))).code).toBe("CORRUPT");
    expect(place.corrupt.map(({ checkpoint_id }) => checkpoint_id)).toEqual([newer.checkpoint_id, id]);
  });

  test("does not begin with a checkpoint that retention removed: refused when named, passed over otherwise", async () => {
    const kept = { ...input({ goal: "log people in" }), compliance: { retention_policy: "P60D" } };
    const { checkpoint_id: id } = await create(place.repository, { task: "source", checkpoint: kept });
    const newer = await create(place.repository, {
      task: "source",
      checkpoint: input({ phase: "complete" }),
    });
    await finalize(place.repository, newer.checkpoint_id, "succeeded", { task: "source" });
    place.now += 31 * DAY_MS;
    expect(await place.retain()).toBe(1);
    const named = await refusal(fork("source", "fork", { source_checkpoint_id: newer.checkpoint_id }));
    expect(named).toMatchObject({
      code: "NOT_FOUND",
      details: { removed: { checkpoint_id: newer.checkpoint_id } },
    });
    expect((await fork("source", "fork")).forked_from).toMatchObject({ checkpoint_id: id });
    place.now += 30 * DAY_MS;
    expect(await place.retain()).toBe(1);
    expect(await refusal(fork("source", "other"))).toMatchObject({
      code: "NOT_FOUND",
      details: { removed: { checkpoint_id: newer.checkpoint_id } },
    });
    // The fork is complete in itself.
    expect((await place.repository.latest("default", "fork")).checkpoint?.execution_state.goal).toBe(
      "log people in",
    );
    expect(await found()).toEqual([]);
  });

  test("stays sound when its source is damaged, and never falls back to the source", async () => {
    const { id } = await source();
    const { checkpoint_id } = await fork("source", "fork");
    await damage("source", id);
    expect((await place.repository.latest("default", "fork")).checkpoint?.metadata.checkpoint_id).toBe(
      checkpoint_id,
    );
    await damage("fork", checkpoint_id);
    expect((await refusal(place.repository.latest("default", "fork"))).code).toBe("CORRUPT");
  });

  test("names its origin in the continuation prompt of its first checkpoint", async () => {
    const { id } = await source();
    const { checkpoint_id } = await fork("source", "fork");
    const prompt = continuationPrompt({ checkpoint: await get(checkpoint_id) });
    expect(prompt.text).toContain(`begins with the state of checkpoint chk-${id} of task source`);
    // A later checkpoint is complete in itself, and the origin would be an ancestor among others.
    const next = await create(place.repository, { task: "fork" });
    const later = continuationPrompt({ checkpoint: await get(next.checkpoint_id) });
    expect(later.text).not.toContain("Forked:");
  });

  test.each([
    ["the entry of the source", "source", 3, { fork_task: "other" }],
    ["the entry of the new task", "fork", 1, { source_task: "other" }],
  ])("is compared by the scrub with both trails: %s is edited", async (_name, task, seq, change) => {
    await source();
    await fork("source", "fork");
    const entry = { ...(await place.trail(task))[seq - 1], ...change };
    const { canonicalText } = await import("../../../../shared/integrity/canonical.ts");
    await edit(async (tx) => tx.set(keys.audit(task, seq), encode(canonicalText(entry))));
    const links = (await found()).filter(({ kind }) => kind === "link");
    const other = task === "source" ? "fork" : "source";
    expect(links).toContainEqual(
      expect.objectContaining({
        task_id: other,
        details: expect.stringContaining("does not record this fork"),
      }),
    );
  });

  test("is found by the scrub when the entry of its source is lost with its task", async () => {
    await source();
    await fork("source", "fork");
    await edit(async (tx) => tx.clear(keys.audit("source", 3)));
    expect((await found()).filter(({ task_id }) => task_id === "fork")).toContainEqual({
      task_id: "fork",
      kind: "link",
      details: "entry 3 of task source does not record this fork",
    });
  });
});
