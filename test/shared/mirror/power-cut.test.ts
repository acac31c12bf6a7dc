// What a power cut can undo: files that are newer than the last sync are written again after a new start of the machine.

import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DiskSync, syncFileSystem } from "../../../shared/mirror/disk-sync.ts";
import { stepMirror } from "../../../shared/mirror/follower.ts";
import { create, ENGINES } from "../../harness/records/records.ts";
import { type MirrorBench, openMirrorBench } from "./bench.ts";

const EVERY_MS = 60_000;
const noFailure = (error: unknown) => {
  throw error;
};

describe.each(ENGINES)("after a power cut on %s", (engine) => {
  let bench: MirrorBench;
  let nowMs: number;
  let disk: DiskSync;
  beforeEach(async () => {
    bench = await openMirrorBench(engine);
    nowMs = 0;
    disk = new DiskSync(
      () => syncFileSystem(bench.path),
      () => nowMs,
      noFailure,
    );
  });
  afterEach(() => bench.close());

  const file = (id: string) => join(bench.path, "checkpoints", "task-1", `chk-${id}.json`);
  const positionPath = () => join(bench.path, "checkpoints", "position.json");
  const step = () => stepMirror({ ...bench.parts, disk }, async () => true);
  const startMachineAgain = () => {
    const known = JSON.parse(readFileSync(positionPath(), "utf8"));
    writeFileSync(positionPath(), JSON.stringify({ ...known, boot: "another start" }));
  };
  async function mirrored(): Promise<string> {
    const { checkpoint_id: id } = await create(bench.repository);
    await step();
    return id;
  }

  test("the files since the last sync are written again, and those before it are left alone", async () => {
    const synced = await mirrored();
    nowMs += EVERY_MS;
    const last = await mirrored();
    await expect.poll(() => disk.synced).not.toBeNull();
    await expect(step()).resolves.toBeNull(); // records what is synced although nothing else is new
    const lost = await mirrored();
    for (const id of [synced, last, lost]) truncateSync(file(id), 10);
    startMachineAgain();
    await step();
    expect(JSON.parse(readFileSync(file(lost), "utf8")).metadata.checkpoint_id).toBe(lost);
    for (const id of [synced, last]) expect(readFileSync(file(id))).toHaveLength(10);
  });

  test("without any sync, all files are written again", async () => {
    const ids = [await mirrored(), await mirrored()];
    for (const id of ids) truncateSync(file(id), 10);
    startMachineAgain();
    await step();
    for (const id of ids) expect(JSON.parse(readFileSync(file(id), "utf8")).metadata.checkpoint_id).toBe(id);
  });

  test("a killed process leaves the written files alone", async () => {
    const id = await mirrored();
    truncateSync(file(id), 10);
    await expect(step()).resolves.toBeNull();
    expect(readFileSync(file(id))).toHaveLength(10);
  });

  test("what was synced counts for its folder only", async () => {
    nowMs += EVERY_MS;
    await mirrored();
    await expect.poll(() => disk.synced).not.toBeNull();
    writeFileSync(positionPath(), "lost");
    await step();
    expect(disk.synced).toBeNull();
    expect(JSON.parse(readFileSync(positionPath(), "utf8")).synced).toBeNull();
  });

  test("parts of killed writers are removed", async () => {
    const id = await mirrored();
    const parts = () => readdirSync(join(bench.path, "checkpoints")).filter((name) => name.endsWith(".part"));
    writeFileSync(join(bench.path, "checkpoints", "0.part"), "half a checkp");
    const next = await openMirrorBench("memory", bench.path);
    await create(next.repository);
    await next.follow();
    await next.close();
    expect(parts()).toEqual([]);
    expect(readFileSync(file(id))).not.toHaveLength(0);
  });
});

test("a sync that fails or is not possible marks nothing as synced, and is tried again", async () => {
  let nowMs = 0;
  const failures: unknown[] = [];
  const outcomes = [() => Promise.reject(new Error("no such command")), () => Promise.resolve()];
  const disk = new DiskSync(
    () => outcomes.shift()!(),
    () => nowMs,
    (error) => failures.push(error),
  );
  nowMs = EVERY_MS;
  disk.written({ after: "01", entry: "one" });
  await expect.poll(() => failures).toHaveLength(1);
  expect(disk.synced).toBeNull();
  nowMs += EVERY_MS;
  disk.written({ after: "02", entry: "two" });
  await expect.poll(() => disk.synced).toEqual({ after: "02", entry: "two" });
});
