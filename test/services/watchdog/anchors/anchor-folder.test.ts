/** The files of anchors: what is appended, and what a killed process leaves. */
import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { anchorFolder } from "../../../../services/watchdog/anchors/anchor-folder.ts";
import { linesOf } from "./anchors.ts";

let above: string;
let folder: string;
let nowMs: number;

beforeEach(() => {
  above = mkdtempSync(join(tmpdir(), "fleet-anchors-"));
  folder = join(above, "kept");
  nowMs = Date.parse("2026-05-01T10:00:00Z");
});
afterEach(() => rmSync(above, { recursive: true, force: true }));

const never = new AbortController().signal;
const keep = (size: number, tenant = "default") =>
  anchorFolder(folder, () => nowMs).keep({ tenant, size, checkpoint: `checkpoint ${size}\n` }, never);
const path = (tenant = "default") => join(folder, `${tenant}.jsonl`);
const sizes = (tenant?: string) => linesOf(folder, tenant).map(({ size }) => size);

test("one line for each checkpoint, in a file of each tenant that only its owner reads", async () => {
  await keep(1);
  await keep(2);
  await keep(7, "acme");
  expect(sizes()).toEqual([1, 2]);
  expect(linesOf(folder, "acme")).toEqual([
    { at: "2026-05-01T10:00:00.000Z", size: 7, checkpoint: "checkpoint 7\n" },
  ]);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(statSync(path()).mode & 0o777).toBe(0o600);
});

test("the same checkpoint again is the same anchor", async () => {
  const first = await keep(1);
  nowMs += 60_000;
  expect(await keep(1)).toEqual(first);
  expect(sizes()).toEqual([1]);
});

test("a line is cut at each of its bytes: nothing before it changes, and the next one is whole", async () => {
  await keep(1);
  const before = readFileSync(path());
  await keep(2);
  const whole = readFileSync(path());
  for (let length = before.length; length <= whole.length; length += 1) {
    writeFileSync(path(), whole.subarray(0, length));
    await keep(3);
    const after = readFileSync(path());
    // Append-only: all that was there is still there.
    expect(after.subarray(0, length).equals(whole.subarray(0, length))).toBe(true);
    expect(sizes()).toEqual(length >= whole.length - 1 ? [1, 2, 3] : [1, 3]);
  }
});

test("a whole line without its end is the anchor, also when it is kept again", async () => {
  await keep(1);
  writeFileSync(path(), readFileSync(path()).subarray(0, -1));
  await keep(1);
  expect(sizes()).toEqual([1]);
  expect(readFileSync(path(), "utf8").endsWith("\n")).toBe(true);
});

test("rubbish of others is skipped, and a link to another file is refused", async () => {
  await keep(1);
  appendFileSync(path(), `rubbish\n${"x".repeat(40_000)}`);
  await keep(2);
  expect(sizes()).toEqual([1, 2]);
  const target = join(above, "target");
  writeFileSync(target, "");
  symlinkSync(target, path("linked"));
  await expect(keep(1, "linked")).rejects.toMatchObject({ code: "ELOOP" });
  expect(readFileSync(target, "utf8")).toBe("");
});
