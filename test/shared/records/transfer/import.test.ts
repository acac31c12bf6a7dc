// Imports on every engine: what is the same as in the origin, what is refused, and that the scrub finds the imported task sound.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { originOf } from "../../../../shared/integrity/origin.ts";
import { hashOf } from "../../../../shared/integrity/seal.ts";
import { replay } from "../../../../shared/lifecycle/replay.ts";
import { importTask, type ReadTask, readTask, withoutHash } from "../../../harness/records/imports.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

/** A checkpoint of any form. */
// biome-ignore lint/suspicious/noExplicitAny: the test breaks the types.
type Forged = Record<string, any>;

const TARGET = "target";
const BY = { tenant: TARGET, agent: "human=olga" };

describe.each(ENGINES)("an import on %s", (engine) => {
  let bench: TestRecords;
  let tasks = 0;
  beforeAll(async () => {
    bench = await openTestRecords(engine);
  });
  afterAll(() => bench.close());

  const codeOf = (done: Promise<unknown>): Promise<string> =>
    done.then(
      () => "applied",
      (error: { code?: string }) => error.code ?? String(error),
    );

  /** A task with versions, a link, an owner and an end. */
  async function origin(state: "active" | "completed" = "active"): Promise<string> {
    tasks += 1;
    const task = `task-${tasks}`;
    const by = { task, fence: 1 };
    await send(bench.repository, "take", {}, { task });
    const first = await create(bench.repository, by);
    const { checkpoint_id: firstId } = first;
    const patch = { execution_state: { goal: "a goal – ünïcode" } };
    await send(bench.repository, "update", { checkpoint_id: firstId, patch }, by);
    const alone = input();
    alone.metadata.parent_ids = [];
    const second = await create(bench.repository, { ...by, checkpoint: alone });
    const link = { parent_id: firstId, child_id: second.checkpoint_id };
    await send(bench.repository, "link", link, by);
    await finalize(bench.repository, firstId, "succeeded", by);
    const last = await create(bench.repository, { ...by, checkpoint: input({ phase: "complete" }) });
    if (state === "completed") await finalize(bench.repository, last.checkpoint_id, "succeeded", by);
    return task;
  }

  test.each(["active", "completed"] as const)(
    "keeps every version of a task that is %s, and the scrub finds it sound",
    async (state) => {
      const task = await origin(state);
      const read = await readTask(bench.repository, "default", task);
      await importTask(bench.repository, read, { ...BY, task });
      const imported = await readTask(bench.repository, TARGET, task);
      expect(imported.versions.map(({ checkpoint }) => originOf(checkpoint))).toEqual(read.versions);
      const [before, after] = [
        await bench.repository.task("default", task),
        await bench.repository.task(TARGET, task),
      ];
      expect(after).toMatchObject({
        state,
        owner: null,
        fence: before.fence + 1,
        origin: { complete: true, audit_hash: before.audit_hash },
      });
      for (const name of [
        "phase",
        "agent_id",
        "agent_type",
        "latest_id",
        "last_successful_id",
        "seq",
      ] as const)
        expect([name, after[name]]).toEqual([name, before[name]]);
      const found = await bench.repository.get(TARGET, String(after.latest_id));
      expect(hashOf(found)).toBe(found.compliance.hash);
      expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
      const { entries } = await bench.repository.audit(TARGET, { task_id: task, from_seq: 1, limit: 500 });
      expect(replay(entries.map(({ entry }) => JSON.parse(entry)))).toMatchObject({
        latest_id: before.latest_id,
        fence: 2,
      });
      expect(JSON.parse(entries[0]!.entry)).toMatchObject({
        op: "import_begin",
        origin_fleet: "fleet-a",
        origin_hash: before.audit_hash,
        actor: { id: "human=olga", type: "human" },
      });
    },
  );

  test("goes back to its own tenant through a third one, each time with the whole origin", async () => {
    const task = await origin();
    const read = await readTask(bench.repository, "default", task);
    await importTask(bench.repository, read, { ...BY, task });
    const second = await readTask(bench.repository, TARGET, task);
    await importTask(bench.repository, second, { ...BY, tenant: "third", task });
    const third = await readTask(bench.repository, "third", task);
    expect(third.versions.map(({ checkpoint }) => originOf(checkpoint))).toEqual(second.versions);
  });

  test("fences off the agents of the origin, and lets a new agent continue", async () => {
    const task = await origin();
    await importTask(bench.repository, await readTask(bench.repository, "default", task), { ...BY, task });
    const by = { tenant: TARGET, task };
    expect(await codeOf(create(bench.repository, { ...by, fence: 1 }))).toBe("FENCED");
    const { fence } = await send(bench.repository, "take", {}, by);
    const next = await create(bench.repository, { ...by, fence });
    expect(next.seq).toBe(4);
    const { checkpoint_id } = next;
    const patch = {
      compliance: { imported_from: { fleet: null, tenant: "x", hash: "y", event_log_ref: "z" } },
    };
    expect(await codeOf(send(bench.repository, "update", { checkpoint_id, patch }, { ...by, fence }))).toBe(
      "INVALID",
    );
    const forged = { ...input(), ...patch };
    const written = await create(bench.repository, { ...by, fence, checkpoint: forged });
    expect(
      (await bench.repository.get(TARGET, written.checkpoint_id)).compliance.imported_from,
    ).toBeUndefined();
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("accepts nothing but its next version until it ends, each command once", async () => {
    const task = await origin();
    const { origin: from, versions, end } = await readTask(bench.repository, "default", task);
    const by = { ...BY, task };
    const commandId = uuidv7();
    const begin = () => send(bench.repository, "import_begin", { origin: from }, { ...by, commandId });
    expect(await begin()).toMatchObject({ replayed: false });
    expect(await begin()).toMatchObject({ replayed: true });
    expect(await codeOf(send(bench.repository, "import_begin", { origin: from }, by))).toBe("CONFLICT");
    for (const op of ["take", "create", "recover"] as const) {
      const body = op === "create" ? { checkpoint: input() } : {};
      expect([op, await codeOf(send(bench.repository, op, body, by))]).toEqual([op, "CONFLICT"]);
    }
    expect(await codeOf(send(bench.repository, "import_end", end, by))).toBe("CONFLICT");
    expect(await codeOf(send(bench.repository, "import_version", { index: 1, ...versions[1] }, by))).not.toBe(
      "applied",
    );
    const first = { index: 0, ...versions[0] };
    const id = uuidv7();
    expect(await send(bench.repository, "import_version", first, { ...by, commandId: id })).toMatchObject({
      replayed: false,
    });
    expect(await send(bench.repository, "import_version", first, { ...by, commandId: id })).toMatchObject({
      replayed: true,
    });
    expect(await codeOf(send(bench.repository, "import_version", first, by))).not.toBe("applied");
    // A crash of the program that imports leaves the task so. The rest can follow at any time.
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
    expect((await bench.repository.task(TARGET, task)).origin).toMatchObject({
      imported: 1,
      complete: false,
    });
    for (const [i, version] of versions.slice(1).entries())
      await send(bench.repository, "import_version", { index: i + 1, ...version }, by);
    expect(
      await codeOf(
        send(bench.repository, "import_version", { index: versions.length, ...versions.at(-1) }, by),
      ),
    ).not.toBe("applied");
    await send(bench.repository, "import_end", end, by);
    expect(await codeOf(send(bench.repository, "import_end", end, by))).toBe("CONFLICT");
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("refuses forged and misplaced versions, and writes nothing of them", async () => {
    const task = await origin();
    const read: ReadTask = await readTask(bench.repository, "default", task);
    const by = { ...BY, task };
    await send(bench.repository, "import_begin", { origin: read.origin }, by);
    const [first] = read.versions as [ReadTask["versions"][0]];
    const other = await readTask(bench.repository, "default", await origin());
    const changed = (change: (copy: Forged) => void) => {
      const copy = structuredClone(first.checkpoint) as Forged;
      change(copy);
      const hash = hashOf({ ...copy, compliance: { ...copy.compliance, hash: "" } } as never);
      return { hash, checkpoint: copy };
    };
    const forged = {
      "another content": {
        hash: first.hash,
        checkpoint: changed((copy) => (copy.execution_state.goal = "x")).checkpoint,
      },
      "another hash": { ...first, hash: "0".repeat(64) },
      "another task": other.versions[0],
      "another tenant": changed((copy) => (copy.metadata.tenant = TARGET)),
      "another trail": changed((copy) => (copy.compliance.event_log_ref = "audit/default/other#1")),
      "a later position": changed((copy) => (copy.metadata.seq = 2)),
      "a later version": changed((copy) => (copy.metadata.version = 2)),
      "a parent that does not exist": changed((copy) => (copy.metadata.parent_ids = [uuidv7()])),
      "itself as its parent": changed((copy) => (copy.metadata.parent_ids = [copy.metadata.checkpoint_id])),
      "a short form": changed((copy) => (copy.execution_state.phase = "implementation")),
      "no state": changed((copy) => delete copy.execution_state),
      "a newer schema": changed((copy) => (copy.schema_version = "9.0")),
      "a hash of its own": {
        ...first,
        checkpoint: { ...first.checkpoint, compliance: { ...first.checkpoint.compliance, hash: first.hash } },
      },
      "a forged origin": changed(
        (copy) =>
          (copy.compliance.imported_from = {
            fleet: null,
            tenant: "a",
            hash: "0".repeat(64),
            event_log_ref: "audit/a/b#1",
          }),
      ),
    };
    const before = await bench.repository.task(TARGET, task);
    for (const [name, version] of Object.entries(forged)) {
      const code = await codeOf(send(bench.repository, "import_version", { index: 0, ...version }, by));
      expect([name, ["INVALID", "UNSUPPORTED_VERSION"].includes(code)]).toEqual([name, true]);
    }
    expect(await bench.repository.task(TARGET, task)).toEqual(before);
  });

  test("takes no id of another task, and replaces no task", async () => {
    const task = await origin();
    const read = await readTask(bench.repository, "default", task);
    expect(await codeOf(send(bench.repository, "import_begin", { origin: read.origin }, { task }))).toBe(
      "CONFLICT",
    );
    const copy = `copy-of-${task}`;
    await send(bench.repository, "import_begin", { origin: read.origin }, { task: copy });
    const [first] = read.versions as [ReadTask["versions"][0]];
    const renamed = structuredClone(first.checkpoint);
    renamed.metadata.task_id = copy;
    renamed.compliance.event_log_ref = `audit/default/${copy}#2`;
    const hash = hashOf({ ...renamed, compliance: { ...renamed.compliance, hash: "" } });
    const version = { index: 0, hash, checkpoint: renamed };
    expect(await codeOf(send(bench.repository, "import_version", version, { task: copy }))).toBe("CONFLICT");
    expect(
      withoutHash(await bench.repository.get("default", first.checkpoint.metadata.checkpoint_id, 1)),
    ).toEqual(first.checkpoint);
  });
});
