// The owner of a task, and the refusal of every command with a fence that is not the current one: by example,
// against a model, and with concurrent commands.

import fc from "fast-check";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { CommandOp } from "../../../../shared/protocol/operations.ts";
import { readOutbox } from "../../../../shared/records/outbox/outbox.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";

async function refusal(promise: Promise<unknown>): Promise<FleetError> {
  const error = await promise.then(
    () => new Error("the command was accepted"),
    (reason: unknown) => reason,
  );
  if (error instanceof FleetError) return error;
  throw error;
}

describe.each(ENGINES)("ownership on %s", (engine) => {
  let bench: TestRecords;
  let tasks = 0;
  const fresh = (): string => {
    tasks += 1;
    return `task-${tasks}`;
  };

  beforeAll(async () => {
    bench = await openTestRecords(engine);
  });
  afterAll(() => bench.close());

  const head = (task: string) => bench.repository.task("default", task);
  const take = (task: string, agent: string, expected?: number) =>
    send(
      bench.repository,
      "take",
      { ...(expected !== undefined && { expected_fence: expected }) },
      { task, agent },
    );
  const release = (task: string, fence: number, agent = "agent-1") =>
    send(bench.repository, "release", {}, { task, agent, fence });

  async function trail(task: string): Promise<Record<string, unknown>[]> {
    const { entries } = await bench.repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
    return entries.map(({ entry }) => JSON.parse(entry) as Record<string, unknown>);
  }

  async function eventsOf(task: string): Promise<unknown[]> {
    const partitions = await bench.store.read({ label: "test", deadlineMs: 1_000 }, (reader) =>
      Promise.all(Array.from({ length: 8 }, (_, partition) => readOutbox(reader, partition, 1_000))),
    );
    const events = partitions.flatMap(({ entries }) => entries.map(({ event }) => event));
    return events.filter(({ subject }) => subject === task).map(({ type, data }) => ({ type, data }));
  }

  test("take makes the caller the owner and raises the fence, with audit entry and event", async () => {
    const task = fresh();
    const { checkpoint_id: id } = await create(bench.repository, { task });
    expect(await take(task, "agent-a")).toMatchObject({ owner: "agent-a", fence: 1, replayed: false });
    expect(await take(task, "agent-b")).toMatchObject({ owner: "agent-b", fence: 2 });
    expect(await release(task, 2, "agent-b")).toMatchObject({ owner: null, fence: 2 });
    expect(await head(task)).toMatchObject({ owner: null, fence: 2, latest_id: id, seq: 1, audit_seq: 4 });
    const owners = ({ op, fence, owner_from, owner_to }: Record<string, unknown>) => [
      op,
      fence,
      owner_from,
      owner_to,
    ];
    expect((await trail(task)).slice(1).map(owners)).toEqual([
      ["take", 1, null, "agent-a"],
      ["take", 2, "agent-a", "agent-b"],
      ["release", 2, "agent-b", null],
    ]);
    expect((await eventsOf(task)).slice(1)).toEqual([
      { type: "TASK_TAKEN", data: { taskId: task, agentId: "agent-a", fence: 1, previousOwner: null } },
      { type: "TASK_TAKEN", data: { taskId: task, agentId: "agent-b", fence: 2, previousOwner: "agent-a" } },
      { type: "TASK_RELEASED", data: { taskId: task, agentId: "agent-b", fence: 2 } },
    ]);
  });

  test("a take creates the task; it has no checkpoint until the first one is written", async () => {
    const task = fresh();
    const taken = await take(task, "agent-a", 0);
    const empty = { phase: null, agent_id: null, agent_type: null, latest_id: null, seq: 0 };
    expect(await head(task)).toMatchObject({ ...empty, state: "active", owner: "agent-a", fence: 1 });
    expect(await bench.repository.latest("default", task)).toEqual({ checkpoint: null, passed_over: [] });
    const history = { task_id: task, limit: 10, order: "newest" as const };
    expect(await bench.repository.history("default", history)).toEqual({
      checkpoints: [],
      corrupt: [],
      removed: [],
    });
    expect((await bench.repository.search("default", { task_id: task, limit: 10 })).checkpoints).toEqual([]);
    expect(await trail(task)).toMatchObject([{ op: "take", checkpoint_id: null, state_from: null }]);

    const patch = { checkpoint_id: uuidv7(), patch: { execution_state: { goal: "x" } } };
    const absent = await refusal(send(bench.repository, "update", patch, { task, fence: 1 }));
    expect(absent.code).toBe("NOT_FOUND");
    const first = await create(bench.repository, { task, fence: 1, expectedVersion: 0 });
    expect(first.seq).toBe(1);
    expect((await bench.repository.get("default", first.checkpoint_id)).metadata.parent_ids).toEqual([]);
    expect(await head(task)).toMatchObject({
      latest_id: first.checkpoint_id,
      phase: "implementing",
      agent_type: "implementation",
      owner: "agent-a",
      created_at: taken.committed_at,
    });
  });

  test("the search index follows the position of a take", async () => {
    const { position } = await take(fresh(), "agent-a");
    for (let more = true; more; ) more = (await stepIndex(bench.store, async () => {})).more;
    const found = await bench.repository.search("default", { wait_for: position, limit: 1 });
    expect(found.indexed_through >= position).toBe(true);
    expect(await bench.repository.indexStatus()).toMatchObject({ behind: 0 });
  });

  describe.each(["create", "update", "finalize", "link", "release"] satisfies CommandOp[])("%s", (op) => {
    async function taken() {
      const task = fresh();
      const parent = await create(bench.repository, { task });
      const checkpoint = input();
      checkpoint.metadata.parent_ids = [];
      const { checkpoint_id: id } = await create(bench.repository, { task, checkpoint });
      await take(task, "agent-a");
      await take(task, "agent-b");
      const body = {
        create: { checkpoint: input() },
        update: { checkpoint_id: id, patch: { execution_state: { goal: "g" } } },
        finalize: { checkpoint_id: id, status: "succeeded" },
        link: { parent_id: parent.checkpoint_id, child_id: id },
        release: {},
      }[op];
      const attempt = (agent: string, fence?: number): Promise<unknown> =>
        send(bench.repository, op, body, { task, agent, ...(fence !== undefined && { fence }) });
      return { task, attempt };
    }

    test("needs the current fence of a task that has an owner; a refusal leaves no trace", async () => {
      const { task, attempt } = await taken();
      const before = await head(task);
      const old = await refusal(attempt("agent-a", 1));
      expect(old).toMatchObject({
        code: "FENCED",
        retryable: false,
        details: { owner: "agent-b", fence: 2, given: 1 },
      });
      const none = await refusal(attempt("agent-b"));
      expect(none.code).toBe(op === "release" ? "INVALID" : "FENCED");
      const ahead = await refusal(attempt("agent-b", 3));
      expect(ahead).toMatchObject({ code: "INVALID", fields: [{ path: "fence" }] });
      expect(await head(task)).toEqual(before);
      await attempt("agent-b", 2);
      expect((await head(task)).audit_seq).toBe(before.audit_seq + 1);
    });

    test("is accepted from any agent that has the current fence, under its own name", async () => {
      const { task, attempt } = await taken();
      await attempt("tool-of-b", 2);
      expect((await trail(task)).at(-1)).toMatchObject({ op, fence: 2, actor: { id: "tool-of-b" } });
    });
  });

  test("after a release no fence is needed, the current one is accepted, and an older one is refused", async () => {
    const task = fresh();
    await take(task, "agent-a");
    await take(task, "agent-b");
    await release(task, 2, "agent-b");
    expect((await refusal(create(bench.repository, { task, fence: 1 }))).code).toBe("FENCED");
    await create(bench.repository, { task });
    await create(bench.repository, { task, fence: 2 });
    expect(await refusal(release(task, 2))).toMatchObject({ code: "CONFLICT", details: { fence: 2 } });
    expect(await take(task, "agent-a")).toMatchObject({ fence: 3 });
  });

  test("a task that does not exist cannot be released", async () => {
    // The fence is checked first: a release needs at least 1, and the task has none.
    expect(await refusal(release(fresh(), 1))).toMatchObject({
      code: "INVALID",
      fields: [{ path: "fence" }],
    });
  });

  test("a take with an old fence is refused: a superseded agent does not take its task back by accident", async () => {
    const task = fresh();
    await take(task, "agent-a");
    await take(task, "agent-b");
    const again = send(bench.repository, "take", {}, { task, agent: "agent-a", fence: 1 });
    expect((await refusal(again)).code).toBe("FENCED");
    expect(await send(bench.repository, "take", {}, { task, agent: "agent-b", fence: 2 })).toMatchObject({
      fence: 3,
    });
  });

  test("of many concurrent takes that expect the same fence exactly one succeeds", async () => {
    const task = fresh();
    await take(task, "agent-0");
    const results = await Promise.allSettled(
      Array.from({ length: 30 }, (_, i) => take(task, `agent-${i}`, 1)),
    );
    const won = results.filter((result) => result.status === "fulfilled");
    expect(won).toHaveLength(1);
    const lost = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
    for (const reason of lost) expect(reason).toMatchObject({ code: "CONFLICT", details: { actual: 2 } });
    expect(await head(task)).toMatchObject({ fence: 2, owner: won[0]?.value.owner });
  });

  test("concurrent takes without an expected fence get a fence each", async () => {
    const task = fresh();
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => take(task, `agent-${i}`)));
    const fences = answers.map(({ fence }) => fence).sort((a, b) => a - b);
    expect(fences).toEqual(Array.from({ length: 30 }, (_, i) => i + 1));
    const last = answers.find(({ fence }) => fence === 30);
    expect(await head(task)).toMatchObject({ fence: 30, owner: last?.owner });
  });

  test("a take or release sent any number of times has one effect and one answer", async () => {
    const task = fresh();
    const commandId = uuidv7();
    const again = () => send(bench.repository, "take", {}, { task, agent: "agent-a", commandId });
    const answers = await Promise.all(Array.from({ length: 20 }, again));
    await take(task, "agent-b");
    answers.push(await again());
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    for (const answer of answers) expect({ ...answer, replayed: true }).toEqual(answers.at(-1));
    expect(await head(task)).toMatchObject({ owner: "agent-b", fence: 2 });

    const releaseId = uuidv7();
    const releasing = () => send(bench.repository, "release", {}, { task, fence: 2, commandId: releaseId });
    const first = await releasing();
    await take(task, "agent-c");
    expect(await releasing()).toEqual({ ...first, replayed: true });
    expect(await head(task)).toMatchObject({ owner: "agent-c", fence: 3 });
  });

  test.each([
    ["completed", "succeeded"],
    ["failed", "failed"],
    ["cancelled", "cancelled"],
  ] as const)(
    "a %s task keeps its state when it is taken, until its new owner writes to it",
    async (state, status) => {
      const task = fresh();
      const { checkpoint_id: id } = await create(bench.repository, {
        task,
        checkpoint: input({ phase: "complete" }),
      });
      await finalize(bench.repository, id, status, { task });
      await take(task, "agent-a");
      expect(await head(task)).toMatchObject({ state, owner: "agent-a", fence: 1 });
      expect((await refusal(create(bench.repository, { task }))).code).toBe("FENCED");
      await create(bench.repository, { task, fence: 1 });
      expect(await head(task)).toMatchObject({ state: "active", fence: 1 });
    },
  );

  test("any sequence of takes, releases and writes follows the rules, and the fence never falls", async () => {
    const step = fc.record({
      op: fc.constantFrom("take", "release", "create"),
      agent: fc.constantFrom("a", "b", "c"),
      fence: fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined }),
      expected: fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        const task = fresh();
        let [owner, fence, exists]: [string | null, number, boolean] = [null, 0, false];
        for (const { op, agent, fence: given, expected } of steps) {
          const body = op === "create" ? { checkpoint: input() } : { expected_fence: expected };
          const got = await send(bench.repository, op as "take", op === "release" ? {} : body, {
            task,
            agent,
            ...(given !== undefined && { fence: given }),
          }).then(
            () => "committed",
            (error: FleetError) => error.code,
          );
          const wanted = (() => {
            if (op === "release" && (given ?? 0) < 1) return "INVALID";
            if (given !== undefined && given > fence) return "INVALID";
            if (given !== undefined && given < fence) return "FENCED";
            if (given === undefined && owner !== null && op !== "take") return "FENCED";
            if (op === "release" && owner === null) return "CONFLICT";
            if (op === "take" && expected !== undefined && expected !== fence) return "CONFLICT";
            return "committed";
          })();
          expect([op, given, got]).toEqual([op, given, wanted]);
          if (got !== "committed") continue;
          exists = true;
          if (op === "take") [owner, fence] = [agent, fence + 1];
          if (op === "release") owner = null;
        }
        if (!exists) return;
        expect(await head(task)).toMatchObject({ owner, fence });
        const fences = (await trail(task)).map((entry) => entry.fence as number);
        expect(fences).toEqual([...fences].sort((a, b) => a - b));
      }),
      { numRuns: 60 },
    );
  });
});
