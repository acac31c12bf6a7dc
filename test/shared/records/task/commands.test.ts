import { randomBytes } from "node:crypto";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
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
  try {
    await promise;
  } catch (error) {
    if (error instanceof FleetError) return error;
    throw error;
  }
  throw new Error("the command was accepted");
}

describe.each(ENGINES)("commands on %s", (engine) => {
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

  /** The traces that a refused command could leave: the task's head and its number of audit entries. */
  async function stateOf(task: string, tenant = "default") {
    const head = await bench.repository.task(tenant, task).catch(() => null);
    const audit = head
      ? await bench.repository.audit(tenant, { task_id: task, from_seq: 1, limit: 500 })
      : { entries: [] };
    return { head, entries: audit.entries.length };
  }

  test("create gives the checkpoint the command's id and links it to the one before", async () => {
    const task = fresh();
    const first = await create(bench.repository, { task });
    const second = await create(bench.repository, { task });
    expect([first.seq, second.seq]).toEqual([1, 2]);
    expect(first.checkpoint_id).toBe(first.command_id);
    const stored = await bench.repository.get("default", second.checkpoint_id);
    expect(stored.metadata.parent_ids).toEqual([first.checkpoint_id]);
    expect(stored.recovery.last_successful_state).toBe(first.checkpoint_id);
    expect(stored.compliance.hash).toBe(second.hash);
    expect(stored.execution_state.completed_items).toEqual([{ title: "read the issue" }]);
  });

  test("positions grow with every commit", async () => {
    const task = fresh();
    const positions: string[] = [];
    for (let i = 0; i < 5; i += 1) positions.push((await create(bench.repository, { task })).position);
    expect([...positions].sort()).toEqual(positions);
    expect(new Set(positions).size).toBe(5);
  });

  test("the same command any number of times has one effect and one answer", async () => {
    const task = fresh();
    const commandId = uuidv7();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => create(bench.repository, { task, commandId })),
    );
    const again = await create(bench.repository, { task, commandId });
    const first = answers.find(({ replayed }) => !replayed);
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    for (const answer of [...answers, again]) expect({ ...answer, replayed: false }).toEqual(first);
    expect((await stateOf(task)).entries).toBe(1);
  });

  test("a command id used for other content is refused", async () => {
    const task = fresh();
    const commandId = uuidv7();
    await create(bench.repository, { task, commandId });
    const error = await refusal(
      create(bench.repository, { task, commandId, checkpoint: input({ goal: "other" }) }),
    );
    expect(error.code).toBe("CONFLICT");
    expect(error.fields[0]?.path).toBe("command_id");
    expect((await stateOf(task)).entries).toBe(1);
  });

  test("concurrent creates on one task are serialised without a gap", async () => {
    const task = fresh();
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => create(bench.repository, { task, agent: `agent-${i}` })),
    );
    expect(answers.map(({ seq }) => seq).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 30 }, (_, i) => i + 1),
    );
    const { checkpoints } = await bench.repository.history("default", {
      task_id: task,
      limit: 100,
      order: "oldest",
    });
    for (const [i, checkpoint] of checkpoints.entries()) {
      expect(checkpoint.metadata.parent_ids).toEqual(
        i === 0 ? [] : [checkpoints[i - 1]?.metadata.checkpoint_id],
      );
    }
  });

  test("update is a merge patch and keeps the earlier version", async () => {
    const task = fresh();
    const { checkpoint_id: id } = await create(bench.repository, {
      task,
      checkpoint: input({ goal: "first", current_focus: "a" }),
    });
    const patch = {
      execution_state: { goal: "second", current_focus: null, pending_items: ["x", "y"] },
      extra: { kept: 1 },
    };
    const answer = await send(bench.repository, "update", { checkpoint_id: id, patch }, { task });
    expect(answer).toMatchObject({ version: 2, seq: 1 });
    const now = await bench.repository.get("default", id);
    expect(now.execution_state).toMatchObject({
      goal: "second",
      pending_items: [{ title: "x" }, { title: "y" }],
    });
    expect(now.execution_state).not.toHaveProperty("current_focus");
    expect(now.extra).toEqual({ kept: 1 });
    const before = await bench.repository.get("default", id, 1);
    expect(before.execution_state).toMatchObject({ goal: "first", current_focus: "a" });
  });

  const writerFields: [string, Record<string, unknown>][] = [
    ["patch.metadata.version", { metadata: { version: 9 } }],
    ["patch.metadata.status", { metadata: { status: "finalized" } }],
    ["patch.metadata", { metadata: null }],
    ["patch.compliance.hash", { compliance: { hash: "0".repeat(64) } }],
    ["patch", {}],
    ["patch.execution_state.phase", { execution_state: { phase: "sleeping" } }],
    ["patch.execution_state", { execution_state: null }],
  ];
  test.each(writerFields)(
    "an update of %s is refused, and the error names the field",
    async (path, patch) => {
      const task = fresh();
      const { checkpoint_id: id } = await create(bench.repository, { task });
      const before = await stateOf(task);
      const error = await refusal(send(bench.repository, "update", { checkpoint_id: id, patch }, { task }));
      expect(error.code).toBe("INVALID");
      expect(error.fields.map((field) => field.path)).toContain(path);
      expect(await stateOf(task)).toEqual(before);
    },
  );

  test("expected_version is checked on create and update", async () => {
    const task = fresh();
    const { checkpoint_id: id } = await create(bench.repository, { task, expectedVersion: 0 });
    const late = await refusal(create(bench.repository, { task, expectedVersion: 0 }));
    expect(late).toMatchObject({ code: "CONFLICT", details: { actual: 1 } });
    const patch = { execution_state: { goal: "g" } };
    const wrong = await refusal(
      send(bench.repository, "update", { checkpoint_id: id, patch, expected_version: 7 }, { task }),
    );
    expect(wrong).toMatchObject({ code: "CONFLICT", details: { actual: 1 } });
    await send(bench.repository, "update", { checkpoint_id: id, patch, expected_version: 1 }, { task });
  });

  test("a finalized checkpoint never changes, byte for byte", async () => {
    const task = fresh();
    const { checkpoint_id: id } = await create(bench.repository, { task });
    await create(bench.repository, { task });
    const other = await create(bench.repository, { task });
    await finalize(bench.repository, other.checkpoint_id, "succeeded", { task });
    const key = tenantKeys("default").checkpoint(task, other.checkpoint_id);
    const row = () => bench.store.read({ label: "test", deadlineMs: 1_000 }, (reader) => reader.get(key));
    const before = await row();
    const attempts = [
      send(bench.repository, "update", { checkpoint_id: other.checkpoint_id, patch: { a: 1 } }, { task }),
      finalize(bench.repository, other.checkpoint_id, "failed", { task }),
      send(bench.repository, "link", { parent_id: id, child_id: other.checkpoint_id }, { task }),
    ];
    for (const attempt of attempts) expect((await refusal(attempt)).code).toBe("FINALIZED");
    expect(await row()).toEqual(before);
  });

  test("finalize applies the retention policy and ends the task", async () => {
    const task = fresh();
    const { checkpoint_id: id } = await create(bench.repository, {
      task,
      checkpoint: input({ phase: "complete" }),
    });
    await send(
      bench.repository,
      "finalize",
      { checkpoint_id: id, status: "succeeded", retention_policy: "P30D" },
      { task },
    );
    const stored = await bench.repository.get("default", id);
    expect(stored.metadata).toMatchObject({ status: "finalized", final_status: "succeeded" });
    const kept = Date.parse(stored.compliance.retain_until ?? "") - Date.parse(stored.metadata.committed_at);
    expect(kept).toBe(30 * 86_400_000);
    expect(await bench.repository.task("default", task)).toMatchObject({
      state: "completed",
      last_successful_id: id,
    });
  });

  test("link adds a parent; self, later, absent and foreign parents are refused", async () => {
    const task = fresh();
    const elsewhere = await create(bench.repository, { task: fresh() });
    const [a, b, c] = [
      await create(bench.repository, { task }),
      await create(bench.repository, { task }),
      await create(bench.repository, { task }),
    ].map(({ checkpoint_id }) => checkpoint_id) as [string, string, string];
    await send(bench.repository, "link", { parent_id: a, child_id: c }, { task });
    expect((await bench.repository.get("default", c)).metadata.parent_ids).toEqual([b, a]);
    const before = await stateOf(task);
    for (const [parent, child] of [
      [c, c],
      [c, a],
      [uuidv7(), c],
      [elsewhere.checkpoint_id, c],
    ] as const) {
      const error = await refusal(
        send(bench.repository, "link", { parent_id: parent, child_id: child }, { task }),
      );
      expect(error.code).toBe("INVALID");
      expect(error.fields[0]?.path).toBe("parent_id");
    }
    expect(await stateOf(task)).toEqual(before);
  });

  test("parents that do not exist or belong to another task are refused, and the error names each", async () => {
    const task = fresh();
    const foreign = await create(bench.repository, { task: fresh() });
    const own = await create(bench.repository, { task });
    const checkpoint = input();
    checkpoint.metadata.parent_ids = [own.checkpoint_id, foreign.checkpoint_id, uuidv7()];
    const error = await refusal(create(bench.repository, { task, checkpoint }));
    expect(error.fields.map(({ path }) => path)).toEqual([
      "checkpoint.metadata.parent_ids.1",
      "checkpoint.metadata.parent_ids.2",
    ]);
    expect((await stateOf(task)).entries).toBe(1);
  });

  test("a body that contradicts the subject is refused", async () => {
    const checkpoint = { ...input(), metadata: { agent_type: "qa", agent_id: "somebody-else" } };
    const error = await refusal(create(bench.repository, { task: fresh(), checkpoint }));
    expect(error.fields[0]).toMatchObject({ path: "checkpoint.metadata.agent_id", got: '"somebody-else"' });
  });

  test("an update of an absent checkpoint, or of one in another task, is NOT_FOUND", async () => {
    const task = fresh();
    await create(bench.repository, { task });
    const elsewhere = await create(bench.repository, { task: fresh() });
    for (const id of [uuidv7(), elsewhere.checkpoint_id]) {
      const error = await refusal(
        send(bench.repository, "update", { checkpoint_id: id, patch: { a: 1 } }, { task }),
      );
      expect(error.code).toBe("NOT_FOUND");
    }
  });

  test("an id from the future is refused", async () => {
    const ahead = (Date.now() + 120_000).toString(16).padStart(12, "0");
    const commandId = `${ahead.slice(0, 8)}-${ahead.slice(8)}-7000-8000-000000000000`;
    const error = await refusal(create(bench.repository, { task: fresh(), commandId }));
    expect(error.fields[0]?.path).toBe("command_id");
  });

  test("a newer major schema version is refused", async () => {
    const error = await refusal(
      create(bench.repository, { task: fresh(), checkpoint: { ...input(), schema_version: "2.0" } }),
    );
    expect(error.code).toBe("UNSUPPORTED_VERSION");
  });

  test("on a task without an owner, the expected fence is 0", async () => {
    const error = await refusal(create(bench.repository, { task: fresh(), fence: 3 }));
    expect(error.fields[0]?.path).toBe("fence");
    await create(bench.repository, { task: fresh(), fence: 0 });
  });

  test("1,000,000 canonical bytes are stored and read back, one more byte is TOO_LARGE", async () => {
    // Printable text that hardly compresses, so that the body needs chunks and nearly fills the transaction.
    const text = (n: number) =>
      Buffer.from(randomBytes(n).map((byte) => 35 + (byte % 56))).toString("latin1");
    const sized = (body: string) => ({ ...input(), body });
    const empty = await create(bench.repository, { task: "size-0", checkpoint: sized("") });
    const { hash: _hash, ...compliance } = (await bench.repository.get("default", empty.checkpoint_id))
      .compliance;
    const stored = await bench.repository.get("default", empty.checkpoint_id);
    const room = 1_000_000 - Buffer.byteLength(canonicalText({ ...stored, compliance }));

    const body = text(room);
    const full = await create(bench.repository, { task: "size-1", checkpoint: sized(body) });
    expect(full.warnings).toEqual(["large_checkpoint"]);
    expect((await bench.repository.get("default", full.checkpoint_id)).body).toBe(body);
    const error = await refusal(create(bench.repository, { task: "size-2", checkpoint: sized(`${body}a`) }));
    expect(error).toMatchObject({
      code: "TOO_LARGE",
      fields: [{ path: "checkpoint", got: "1000001 bytes" }],
    });
    expect((await stateOf("size-2")).head).toBeNull();
  });

  test("tenants do not see each other", async () => {
    const task = fresh();
    const { checkpoint_id: id } = await create(bench.repository, { task, tenant: "clinic" });
    expect((await refusal(bench.repository.get("default", id))).code).toBe("NOT_FOUND");
    expect((await bench.repository.get("clinic", id)).metadata.tenant).toBe("clinic");
    expect((await refusal(bench.repository.task("default", task))).code).toBe("NOT_FOUND");
  });
});
