import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { writeOnce, writeWhole } from "../../../../shared/runtime/process/whole-file.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-whole-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a file that exists is not written once more", () => {
  const path = join(folder, "key.pem");
  expect(writeOnce(path, "first")).toBe(true);
  expect(writeOnce(path, "second")).toBe(false);
  expect(readFileSync(path, "utf8")).toBe("first");
  writeWhole(path, "third");
  expect(readFileSync(path, "utf8")).toBe("third");
  expect(readdirSync(folder)).toEqual(["key.pem"]);
});

test("a thread does not write into the unfinished file of another thread, or of a container with the same process id", () => {
  const path = join(folder, "key.pem");
  const unfinished = `${path}.${process.pid}`;
  writeFileSync(unfinished, "of the other thread");
  writeOnce(path, "own");
  writeWhole(path, "own again");
  expect(readFileSync(unfinished, "utf8")).toBe("of the other thread");
});

test("a file that cannot take its place is removed", () => {
  const path = join(folder, "taken");
  writeWhole(join(folder, "other"), "other");
  expect(() => writeWhole(join(path, "key.pem"), "own")).toThrow(/ENOENT/);
  expect(readdirSync(folder)).toEqual(["other"]);
});
