/** The search for the fleet of a folder: the nearest record counts, and none that another user may write. */
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { isBusOfHome } from "../../../shared/sdk/address.ts";
import { copiedFrom, nearestHome, readRecord } from "../../../shared/sdk/fleet-home.ts";

const root = mkdtempSync(join(tmpdir(), "fleet-home-"));
const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;
afterAll(() => rmSync(root, { recursive: true, force: true }));

let project: string;
let deep: string;
let count = 0;
beforeEach(() => {
  count += 1;
  project = join(root, `project-${count}`);
  deep = join(project, "packages", "app");
  mkdirSync(deep, { recursive: true });
});

function record(folder: string): string {
  const home = join(folder, ".fleet");
  mkdirSync(home, { recursive: true, mode: 0o755 });
  writeFileSync(join(home, "addresses.json"), "{}", { mode: 0o644 });
  return home;
}

describe("the nearest home", () => {
  test("is found in the folder and from every folder below it", () => {
    expect(nearestHome(deep)).toBeUndefined();
    const home = record(project);
    expect(nearestHome(project)).toBe(home);
    expect(nearestHome(deep)).toBe(home);
    const own = record(join(project, "packages"));
    expect(nearestHome(deep)).toBe(own);
  });

  test("has a record: a folder with programs or keys alone is passed over", () => {
    const home = record(project);
    mkdirSync(join(deep, ".fleet", "bin"), { recursive: true });
    writeFileSync(join(project, "packages", ".fleet"), "no folder");
    expect(nearestHome(deep)).toBe(home);
  });

  test("may be a link to a folder of the same user", () => {
    symlinkSync(record(project), join(deep, ".fleet"));
    expect(nearestHome(deep)).toBe(join(deep, ".fleet"));
  });
});

describe("a record with several servers", () => {
  const busUrl = "tls://localhost:4222, tls://localhost:4223";
  const write = (url: string) =>
    writeFileSync(join(record(project), "addresses.json"), JSON.stringify({ busUrl: url }));

  test("names each of them", () => {
    write(busUrl);
    const env = { FLEET_HOME: join(project, ".fleet") };
    expect(readRecord(env.FLEET_HOME)).toMatchObject({ url: busUrl });
    expect(isBusOfHome("nats://127.0.0.1:4223", env)).toBe(true);
    expect(isBusOfHome("tls://localhost:4223,tls://localhost:4222", env)).toBe(true);
    expect(isBusOfHome("tls://localhost:4222,tls://localhost:9999", env)).toBe(false);
  });

  test("is refused if one of them is no address", () => {
    write("tls://localhost:4222,nowhere");
    expect(() => readRecord(join(project, ".fleet"))).toThrow(/no address/);
  });
});

describe("a home with the record of another path", () => {
  const fleet = "0123456789abcdef";
  const write = (home: string, of: string) =>
    writeFileSync(
      join(home, "addresses.json"),
      JSON.stringify({ busUrl: "nats://127.0.0.1:1", fleet, home: of }),
    );

  test("is a copy while the original has the same fleet, and then has no address", () => {
    const [original, copy] = [record(project), record(deep)];
    write(original, original);
    write(copy, original);
    expect(copiedFrom(original)).toBeUndefined();
    expect(copiedFrom(copy)).toBe(original);
    expect(() => readRecord(copy)).toThrow(`a copy from ${original}`);
  });

  test("was moved if the original is not there any more", () => {
    const [original, moved] = [record(project), record(deep)];
    write(moved, original);
    expect(readRecord(moved)).toMatchObject({ fleet });
    rmSync(original, { recursive: true });
    expect(readRecord(moved)).toMatchObject({ fleet });
  });

  test("is the same home behind a link", () => {
    const original = record(project);
    write(original, original);
    symlinkSync(original, join(deep, ".fleet"));
    expect(readRecord(join(deep, ".fleet"))).toMatchObject({ fleet });
  });
});

describe("a home is refused, and its parents are not tried, if another user may write", () => {
  const refused =
    /FLEET_HOME: expected a path, because .* another user may write .*; got nothing; the folder is/;

  test("the folder", () => {
    record(project);
    chmodSync(record(deep), 0o775);
    expect(() => nearestHome(deep)).toThrow(refused);
  });

  test("the record in a folder that others may enter", () => {
    const home = record(deep);
    chmodSync(join(home, "addresses.json"), 0o666);
    expect(() => nearestHome(deep)).toThrow(refused);
    chmodSync(home, 0o700);
    expect(nearestHome(deep)).toBe(home);
  });

  test.runIf(isRoot)("because it is another user's", () => {
    const home = record(deep);
    chownSync(home, NOBODY, NOBODY);
    expect(() => nearestHome(deep)).toThrow(`${home}, of user ${NOBODY} with mode 755`);
    rmSync(home, { recursive: true });
    symlinkSync(record(project), home);
    expect(nearestHome(deep)).toBe(home);
    chownSync(join(project, ".fleet", "addresses.json"), NOBODY, NOBODY);
    expect(() => nearestHome(deep)).toThrow(refused);
  });
});
