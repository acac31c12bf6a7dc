// The thread that writes the files: results and errors reach the caller, also after the thread has ended.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MirrorThread } from "../../../shared/mirror/file-thread.ts";

let path: string;
let files: MirrorThread;
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), "fleet-mirror-"));
  files = new MirrorThread(path);
});
afterEach(async () => {
  await files.close();
  rmSync(path, { recursive: true, force: true });
});

const id = "0198a3a0-0000-7000-8000-000000000001";
const place = { tenant: "default", task: "task-1" };
const file = () => readFileSync(join(path, "checkpoints", "task-1", `chk-${id}.json`), "utf8");

async function write(text: string): Promise<void> {
  await files.prepare();
  const [end] = await files.trailEnds([place]);
  if (end === undefined || "unsafe" in end) throw new Error("the place is not safe");
  const checkpoints = [{ id, content: new Uint8Array(Buffer.from(text)) }];
  const change = {
    ...place,
    trail: { end, entries: [], isLast: true },
    checkpoints,
    removed: [],
    latest: id,
  };
  await expect(files.write([change])).resolves.toEqual([]);
}

test("writes files, and again after the thread has ended", async () => {
  await write("one");
  await files.close();
  await write("two");
  expect(file()).toBe("two");
});

test("an error reaches the caller, and the next call works", async () => {
  writeFileSync(join(path, "checkpoints"), "a file in the place of the folder");
  await expect(files.prepare()).rejects.toThrow("not a plain file or folder");
  rmSync(join(path, "checkpoints"));
  await write("one");
  expect(file()).toBe("one");
});

test("places that are not plain files or folders are named, and the other tasks are written", async () => {
  mkdirSync(join(path, "checkpoints", "task-2", "audit.jsonl"), { recursive: true });
  await write("one");
  await expect(files.trailEnds([{ ...place, task: "task-2" }, place])).resolves.toMatchObject([
    { unsafe: join(path, "checkpoints", "task-2", "audit.jsonl") },
    { seq: 0 },
  ]);
});

test("calls before the last answer are answered in their order, also with errors", async () => {
  await files.prepare();
  const answers = await Promise.allSettled([
    files.trailEnds([place]),
    files.trailEnds([{ ...place, task: "a.b" }]),
    files.trailEnds([place, place]),
  ]);
  const seen = answers.map((one) => (one.status === "fulfilled" ? one.value.length : one.reason.message));
  expect(seen).toEqual([1, "the input is not valid", 2]);
});

test("the end of the thread fails all waiting calls, and no later one", async () => {
  await files.prepare();
  const waiting = Promise.allSettled([files.prepare(), files.prepare()]);
  await files.close();
  await expect(files.prepare()).resolves.toBeNull();
  expect((await waiting).filter(({ status }) => status === "rejected").length).toBeGreaterThan(0);
});
