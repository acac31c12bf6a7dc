import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDemoHome } from "../../../deploy/demo/home.ts";

let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), "fleet-demo-home-"));
});
afterEach(() => rmSync(parent, { recursive: true }));

test("a new home is closed to other users, and the demo uses its own fleet again", () => {
  const home = join(parent, "new");
  const log = openDemoHome(home);
  expect(statSync(home).mode & 0o777).toBe(0o700);
  expect(readFileSync(join(home, "demo-fleet.txt"), "utf8")).toContain("Do not use it for work");
  mkdirSync(join(home, "store"));
  expect(openDemoHome(home)).toBe(log);
});

test("a folder without a fleet is used: the set-up puts programs into it", () => {
  const home = join(parent, ".fleet");
  mkdirSync(join(home, "bin"), { recursive: true });
  expect(openDemoHome(home)).toBe(join(home, "demo.log"));
});

test.each(["store", "nats", "addresses.json"])("a folder with %s of another fleet is refused", (part) => {
  const home = join(parent, "other");
  mkdirSync(join(home, part), { recursive: true });
  expect(() => openDemoHome(home)).toThrow(`${home} has a fleet that is not the demo's`);
  expect(readdirSync(home)).toEqual([part]);
});

test("the log of an earlier demo does not show that the demo has made the fleet", () => {
  const home = join(parent, "other");
  mkdirSync(join(home, "store"), { recursive: true });
  writeFileSync(join(home, "demo.log"), "");
  expect(() => openDemoHome(home)).toThrow("has a fleet that is not the demo's");
  expect(readdirSync(home).sort()).toEqual(["demo.log", "store"]);
});
