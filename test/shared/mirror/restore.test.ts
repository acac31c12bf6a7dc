// Restoration: a row that the store lost or holds corrupt comes back from the mirror, and from nowhere else.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { create, ENGINES, finalize, send } from "../../harness/records/records.ts";
import { scrub } from "../../harness/records/scrub.ts";
import { flip } from "../records/search/corpus.ts";
import { type MirrorBench, mirrorAs, openMirrorBench } from "./bench.ts";

const TASK = "task-1";
const keys = tenantKeys("default");
const writing = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

describe.each(ENGINES)("restoration on %s", (engine) => {
  let bench: MirrorBench;
  let ids: string[];
  beforeEach(async () => {
    bench = await openMirrorBench(engine);
    ids = [];
    for (let n = 0; n < 3; n += 1) ids.push((await create(bench.repository)).checkpoint_id);
    await bench.follow();
  });
  afterEach(() => bench.close());

  const file = (id: string) => join(bench.path, "checkpoints", TASK, `chk-${id}.json`);
  const lose = (id: string) =>
    bench.store.transact(writing, async (tx) => tx.clear(keys.checkpoint(TASK, id)));
  const trail = async () => {
    const { entries } = await bench.repository.audit("default", { task_id: TASK, from_seq: 1, limit: 100 });
    return entries.map(({ entry }) => JSON.parse(entry) as Record<string, unknown>);
  };

  const damages: [string, (id: string) => Promise<unknown>][] = [
    ["missing", (id) => lose(id)],
    ["corrupt", (id) => flip(bench.store, TASK, id)],
  ];

  test.each(damages)(
    "a %s row is restored byte for byte, audited, and named in the answer",
    async (_what, harm) => {
      const id = ids[2]!;
      const before = await bench.repository.get("default", id);
      await harm(id);
      const found = await bench.repository.reads.find("default", id);
      expect(found.checkpoint).toEqual(before);
      expect(found.restored).toMatchObject([{ checkpoint_id: id, version: 1 }]);
      expect(bench.corrupt).toEqual([]);
      expect(bench.restored).toHaveLength(1);
      expect((await trail()).at(-1)).toMatchObject({
        op: "restore",
        checkpoint_id: id,
        version: 1,
        restored_hash: before.compliance.hash,
        actor: { id: "reader", type: "service" },
      });
      await expect(bench.repository.reads.find("default", id)).resolves.toEqual({ checkpoint: before });
      expect((await scrub(bench)).findings).toEqual([]);
    },
  );

  test.each(damages)(
    "latest answers with the newest checkpoint although its row is %s",
    async (_what, harm) => {
      await harm(ids[2]!);
      await harm(ids[1]!);
      const { checkpoint, passed_over, restored } = await bench.repository.latest("default", TASK);
      expect(checkpoint?.metadata.checkpoint_id).toBe(ids[2]);
      expect([passed_over, restored?.map((one) => one.checkpoint_id)]).toEqual([[], [ids[2], ids[1]]]);
    },
  );

  test("schema version mismatch: an older file is migrated by the read that restores it", async () => {
    const id = ids[2]!;
    await mirrorAs(bench, { task: TASK, id, schemaVersion: "1.0" });
    const { checkpoint, restored } = await bench.repository.reads.find("default", id);
    expect([checkpoint.schema_version, restored]).toMatchObject(["1.1", [{ checkpoint_id: id }]]);
    const asStored = await bench.repository.reads.find("default", id, undefined, { as_stored: true });
    expect(asStored.checkpoint.schema_version).toBe("1.0");
  });

  test("schema version mismatch: a newer file is refused with both versions, and stays", async () => {
    const id = ids[2]!;
    await mirrorAs(bench, { task: TASK, id, schemaVersion: "9.0" });
    const refused = {
      code: "UNSUPPORTED_VERSION",
      message: "the checkpoint's schema version is newer than this program",
      fields: [{ path: "schema_version", expected: expect.stringMatching(/^at most 1/), got: "9.0" }],
    };
    await expect(bench.repository.reads.find("default", id)).rejects.toMatchObject(refused);
    expect(bench.corrupt).toEqual([]);
    expect(JSON.parse(readFileSync(file(id), "utf8")).schema_version).toBe("9.0");
  });

  test("a recovery continues from the newest checkpoint although it and its ancestors are lost", async () => {
    for (const id of ids) await lose(id);
    const search = await bench.repository.recoveryActions.findPoint({ tenant: "default", task: TASK });
    expect(search).toMatchObject({ found: true, passed_over: [] });
    expect(search.found && search.checkpoint.metadata.checkpoint_id).toBe(ids[2]);
    expect(bench.restored.map((one) => one.checkpoint_id).sort()).toEqual([...ids].sort());
  });

  test("a command on a lost draft is applied after its restoration", async () => {
    await lose(ids[2]!);
    await expect(finalize(bench.repository, ids[2]!)).resolves.toMatchObject({ version: 2 });
    expect((await trail()).map(({ op }) => op).slice(-2)).toEqual(["restore", "finalize"]);
  });

  test("without a copy a lost row is CORRUPT, and latest falls back to the checkpoint before", async () => {
    await lose(ids[2]!);
    rmSync(file(ids[2]!));
    await expect(bench.repository.reads.find("default", ids[2]!)).rejects.toMatchObject({ code: "CORRUPT" });
    const { checkpoint, passed_over, restored } = await bench.repository.latest("default", TASK);
    expect(checkpoint?.metadata.checkpoint_id).toBe(ids[1]);
    expect(passed_over).toMatchObject([{ checkpoint_id: ids[2] }]);
    expect(restored).toBeUndefined();
  });

  test.each([
    ["an edited copy", (text: string) => text.replace("write the code", "drop the code")],
    ["a torn copy", (text: string) => text.slice(0, 100)],
    ["a copy of another checkpoint", () => readFileSync(file(ids[0]!), "utf8")],
    ["an earlier version", (text: string) => text],
  ])("%s is not restored", async (what, change) => {
    const id = ids[2]!;
    const text = readFileSync(file(id), "utf8");
    if (what === "an earlier version")
      await send(bench.repository, "update", {
        checkpoint_id: id,
        patch: { context_summary: { notes: ["new"] } },
      });
    await lose(id);
    writeFileSync(file(id), change(text));
    await expect(bench.repository.reads.find("default", id)).rejects.toMatchObject({ code: "CORRUPT" });
    expect(bench.restored).toEqual([]);
    expect(bench.corrupt).toHaveLength(1);
  });

  test("a restoration lifts an earlier quarantine of the version, and damage afterwards quarantines it again", async () => {
    const id = ids[2]!;
    const copy = readFileSync(file(id));
    await flip(bench.store, TASK, id);
    rmSync(file(id));
    await expect(bench.repository.reads.find("default", id)).rejects.toMatchObject({ code: "CORRUPT" });
    writeFileSync(file(id), copy);
    await expect(bench.repository.reads.find("default", id)).resolves.toMatchObject({
      restored: [{ checkpoint_id: id }],
    });
    await expect(bench.repository.get("default", id)).resolves.toMatchObject({
      metadata: { checkpoint_id: id },
    });
    expect((await scrub(bench)).findings).toEqual([]);
    rmSync(file(id));
    await flip(bench.store, TASK, id);
    await expect(bench.repository.reads.find("default", id)).rejects.toMatchObject({ code: "CORRUPT" });
    expect(
      (await trail()).map(({ op }) => op).filter((op) => op === "quarantine" || op === "restore"),
    ).toEqual(["quarantine", "restore", "quarantine"]);
  });

  test("many reads of one lost row restore it once", async () => {
    await lose(ids[2]!);
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => bench.repository.get("default", ids[2]!)),
    );
    expect(new Set(answers.map(({ compliance }) => compliance.hash)).size).toBe(1);
    expect((await trail()).filter(({ op }) => op === "restore")).toHaveLength(1);
  });

  test("the scrub finds an edited mark that claims a restoration", async () => {
    const id = ids[0]!;
    rmSync(file(id));
    await flip(bench.store, TASK, id);
    await expect(bench.repository.reads.find("default", id)).rejects.toMatchObject({ code: "CORRUPT" });
    const { encode } = await import("../../../shared/records/kv/codec.ts");
    await bench.store.transact(writing, async (tx) => {
      tx.set(
        keys.quarantine(TASK, id, 1),
        encode({ reason: "x", at: new Date().toISOString(), by: "x", lifted_at: new Date().toISOString() }),
      );
    });
    expect((await scrub(bench, { quarantines: false })).findings.map(({ details }) => details)).toContain(
      "the quarantine of the version is lifted, and no entry of the trail records it",
    );
  });
});
