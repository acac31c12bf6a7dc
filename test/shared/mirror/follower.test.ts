// The folder of the mirror: what it holds, who can read it, and what it survives.

import {
  appendFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { createChainVerifier } from "../../../shared/integrity/chain.ts";
import { hashOf } from "../../../shared/integrity/seal.ts";
import { MirrorFiles } from "../../../shared/mirror/files.ts";
import { MirrorFolder } from "../../../shared/mirror/folder.ts";
import { stepMirror } from "../../../shared/mirror/follower.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { create, ENGINES, finalize, send } from "../../harness/records/records.ts";
import { flip } from "../records/search/corpus.ts";
import { type MirrorBench, openMirrorBench } from "./bench.ts";

const mode = (path: string): number => lstatSync(path).mode & 0o777;

/** A folder that ends with its test. */
function folderOutside(): string {
  const path = mkdtempSync(join(tmpdir(), "fleet-outside-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

describe.each(ENGINES)("the mirror of a store on %s", (engine) => {
  let bench: MirrorBench;
  beforeEach(async () => {
    bench = await openMirrorBench(engine);
  });
  afterEach(() => bench.close());

  const at = (...names: string[]) => join(bench.path, "checkpoints", ...names);
  const read = (...names: string[]) => JSON.parse(readFileSync(at(...names), "utf8"));
  const lines = (task: string) => readFileSync(at(task, "audit.jsonl"), "utf8").trimEnd().split("\n");

  test("holds every checkpoint as one file with its hash, for its owner only", async () => {
    const { checkpoint_id: first } = await create(bench.repository);
    const { checkpoint_id: second, hash } = await create(bench.repository);
    await bench.follow();
    expect(readdirSync(at("task-1")).sort()).toEqual(
      ["audit.jsonl", `chk-${first}.json`, `chk-${second}.json`, "latest.json"].sort(),
    );
    const stored = await bench.repository.get("default", second);
    expect(read("task-1", `chk-${second}.json`)).toEqual(stored);
    expect(hashOf(read("task-1", `chk-${second}.json`))).toBe(hash);
    expect(readlinkSync(at("task-1", "latest.json"))).toBe(`chk-${second}.json`);
    expect(read("task-1", "latest.json")).toEqual(stored);
    for (const name of [`chk-${first}.json`, "audit.jsonl"]) expect(mode(at("task-1", name))).toBe(0o600);
    for (const folder of [at(), at("task-1")]) expect(mode(folder)).toBe(0o700);
  });

  test("an update and a finalization rewrite the file", async () => {
    const { checkpoint_id: id } = await create(bench.repository);
    await bench.follow();
    await send(bench.repository, "update", {
      checkpoint_id: id,
      patch: { context_summary: { notes: ["later"] } },
    });
    await bench.follow();
    expect(read("task-1", `chk-${id}.json`).metadata).toMatchObject({ version: 2, status: "draft" });
    await finalize(bench.repository, id);
    await bench.follow();
    expect(read("task-1", `chk-${id}.json`).metadata).toMatchObject({ version: 3, status: "finalized" });
  });

  test("the file of a removed checkpoint is removed, and the trail states it", async () => {
    const ids = [];
    for (let n = 0; n < 3; n += 1) ids.push((await create(bench.repository)).checkpoint_id);
    await bench.follow();
    const operator = { task: "task-1", agent: "human=olga" };
    await send(bench.repository, "remove", { checkpoint_id: ids[0], keep: 1 }, operator);
    await bench.follow();
    await expect(bench.folder.checkpoints({ tenant: "default", task: "task-1" })).resolves.toEqual(
      ids.slice(1),
    );
    expect(JSON.parse(lines("task-1").at(-1)!)).toMatchObject({ op: "remove", checkpoint_id: ids[0] });
    rmSync(at("position.json"));
    await bench.follow();
    await expect(bench.folder.checkpoints({ tenant: "default", task: "task-1" })).resolves.toEqual(
      ids.slice(1),
    );
  });

  test("the trail in the folder is the chained trail of the task, also after a torn line", async () => {
    const { checkpoint_id: id } = await create(bench.repository);
    await bench.follow();
    appendFileSync(at("task-1", "audit.jsonl"), '{"actor":{"id":"age');
    await finalize(bench.repository, id);
    await bench.follow();
    const verifier = createChainVerifier();
    for (const [i, entry] of lines("task-1").entries()) verifier.add({ seq: i + 1, entry });
    const page = await bench.repository.audit("default", { task_id: "task-1", from_seq: 1, limit: 100 });
    expect(verifier.finish({ seq: page.entries.length, hash: page.entries.at(-1)!.hash })).toMatchObject({
      ok: true,
    });
  });

  test("another tenant has a folder that no task of the default tenant can be named like", async () => {
    await create(bench.repository, { task: "acme" });
    await create(bench.repository, { tenant: "acme", task: "task-1" });
    await bench.follow();
    expect(readdirSync(at()).sort()).toEqual(["=acme", "acme", "position.json"]);
    expect(readdirSync(at("=acme"))).toEqual(["task-1"]);
    const places = [];
    for await (const place of bench.folder.tasks()) places.push(place);
    expect(places).toEqual([
      { tenant: "acme", task: "task-1" },
      { tenant: "default", task: "acme" },
    ]);
  });

  test.each([["../up"], ["a/b"], [".."], [""], ["a.b"], ["=x"]])(
    "the task name %j becomes no path",
    async (task) => {
      const files = new MirrorFiles(bench.path);
      files.prepare();
      for (const place of [
        { tenant: "default", task },
        { tenant: task, task: "task-1" },
      ])
        expect(() => files.trailEnds([place])).toThrow("the input is not valid");
      files.trailEnds([{ tenant: "default", task: "task-1" }]);
      await expect(bench.folder.read({ tenant: "default", task: "task-1" }, task)).rejects.toMatchObject({
        code: "INVALID",
      });
    },
  );

  test("no link in the folder leads a write out of it, and the other tasks go into the mirror", async () => {
    const outside = folderOutside();
    mkdirSync(at(), { recursive: true, mode: 0o700 });
    symlinkSync(outside, at("task-1"));
    await create(bench.repository, { task: "task-1" });
    const { checkpoint_id: id } = await create(bench.repository, { task: "task-2" });
    const steps = await bench.follow();
    expect(steps.flatMap(({ unsafe }) => unsafe)).toEqual([at("task-1")]);
    expect(readdirSync(outside)).toEqual([]);
    expect(read("task-2", "latest.json").metadata.checkpoint_id).toBe(id);
  });

  test("a link in the place of a file is replaced, and never read", async () => {
    const outside = join(folderOutside(), "file");
    const { checkpoint_id: id } = await create(bench.repository);
    await bench.follow();
    const path = at("task-1", `chk-${id}.json`);
    writeFileSync(outside, readFileSync(path));
    rmSync(path);
    symlinkSync(outside, path);
    await expect(bench.folder.read({ tenant: "default", task: "task-1" }, id)).resolves.toBeNull();
    await finalize(bench.repository, id);
    await bench.follow();
    expect(lstatSync(path).isFile()).toBe(true);
    expect(JSON.parse(readFileSync(outside, "utf8")).metadata.version).toBe(1);
  });

  test.each([
    ["lost", (path: string) => rmSync(path)],
    ["damaged", (path: string) => truncateSync(path, 20)],
  ])("a %s position completes the folder from the beginning", async (_what, harm) => {
    const { checkpoint_id: id } = await create(bench.repository);
    await bench.follow();
    rmSync(at("task-1"), { recursive: true });
    await expect(bench.follow()).resolves.toEqual([]);
    harm(at("position.json"));
    await bench.follow();
    expect(readdirSync(at("task-1"))).toContain(`chk-${id}.json`);
  });

  test("a step whose lease was lost leaves the position for the leader", async () => {
    const { checkpoint_id: id } = await create(bench.repository);
    await stepMirror(bench.parts, async () => false);
    await expect(bench.folder.position()).resolves.toBeNull();
    await bench.follow();
    expect(read("task-1", "latest.json").metadata.checkpoint_id).toBe(id);
  });

  test("a trail that ends where the head says is not read again", async () => {
    await create(bench.repository);
    await bench.follow();
    const trail = lines("task-1");
    await bench.store.transact({ label: "test", deadlineMs: 10_000, onUnknown: "safe" }, async (tx) =>
      tx.clear(tenantKeys("default").audit("task-1", 1)),
    );
    rmSync(at("position.json"));
    await bench.follow();
    expect(readdirSync(at("task-1")).filter((name) => name.startsWith("audit."))).toEqual(["audit.jsonl"]);
    expect(lines("task-1")).toEqual(trail);
  });

  test("the folder of another store is completed beside its files, whose trail is set aside", async () => {
    const { checkpoint_id: old } = await create(bench.repository);
    await bench.follow();
    const trail = readFileSync(at("task-1", "audit.jsonl"), "utf8");
    const other = await openMirrorBench("memory", bench.path);
    const { checkpoint_id: fresh } = await create(other.repository);
    await other.follow();
    await other.close();
    const names = readdirSync(at("task-1"));
    expect(names).toEqual(expect.arrayContaining([`chk-${old}.json`, `chk-${fresh}.json`]));
    const aside = names.find((name) => /^audit\.[0-9a-f]{16}\.jsonl$/.test(name));
    expect(readFileSync(at("task-1", aside!), "utf8")).toBe(trail);
    expect(lines("task-1")).toHaveLength(1);
  });

  test("one step copies many checkpoints of one task and of many tasks, each after the trail that names it", async () => {
    const ids = [];
    for (let n = 0; n < 40; n += 1) ids.push((await create(bench.repository)).checkpoint_id);
    for (let n = 0; n < 40; n += 1) await create(bench.repository, { task: `other-${n}` });
    await expect(bench.follow()).resolves.toMatchObject([{ more: false, unsafe: [] }]);
    const files = await bench.folder.checkpoints({ tenant: "default", task: "task-1" });
    expect(files.toSorted()).toEqual(ids.toSorted());
    expect(lines("task-1")).toHaveLength(40);
    for (let n = 0; n < 40; n += 1) expect(lines(`other-${n}`)).toHaveLength(1);
  });

  test("a corrupt row leaves the file of its checkpoint alone", async () => {
    const { checkpoint_id: id } = await create(bench.repository);
    await bench.follow();
    const before = readFileSync(at("task-1", `chk-${id}.json`), "utf8");
    await flip(bench.store, "task-1", id);
    rmSync(at("position.json"));
    await bench.follow();
    expect(readFileSync(at("task-1", `chk-${id}.json`), "utf8")).toBe(before);
  });

  test("a checkpoint of the largest size is in the mirror", async () => {
    const { checkpoint_id: id } = await create(bench.repository, {
      checkpoint: {
        metadata: { agent_type: "implementation" },
        execution_state: {
          phase: "implementing",
          completed_items: [],
          pending_items: [],
          notes: "x".repeat(900_000),
        },
      } as never,
    });
    await bench.follow();
    const sealed = await bench.folder.read({ tenant: "default", task: "task-1" }, id);
    expect(sealed?.hash).toBe((await bench.repository.get("default", id)).compliance.hash);
  });

  test("an empty folder has neither position nor tasks", async () => {
    const empty = new MirrorFolder(folderOutside());
    await expect(empty.position()).resolves.toBeNull();
    for await (const place of empty.tasks()) expect(place).toBeUndefined();
    await expect(empty.checkpoints({ tenant: "default", task: "task-1" })).resolves.toEqual([]);
  });
});
