// `fleet hook install`, `remove` and `doctor`: the settings of agent programs, which belong to their user.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HOOK_VENDOR_NAMES, HOOK_VENDORS, type HookVendorName } from "../../../shared/sdk/hooks/vendors.ts";
import { callCli } from "./call.ts";

let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "fleet-hook-settings-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const pathOf = (vendor: HookVendorName) => HOOK_VENDORS[vendor].userSettings(home, {});
const call = (...words: string[]) =>
  callCli(["hook", ...words], { env: { HOME: home, FLEET_HOME: join(home, "fleet") } });
const read = (vendor: HookVendorName) => JSON.parse(readFileSync(pathOf(vendor), "utf8"));

function write(vendor: HookVendorName, text: string): string {
  const path = pathOf(vendor);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode: 0o640 });
  return path;
}

const OTHERS = {
  model: "opus",
  hooks: { Stop: [{ hooks: [{ type: "command", command: "say done" }] }], Notification: [] },
};

describe.each(HOOK_VENDOR_NAMES)("%s", (vendor) => {
  test("install adds every hook and keeps all other entries; remove leaves what was there before", async () => {
    write(vendor, JSON.stringify(OTHERS));
    const installed = await call("install", vendor);
    expect(installed).toMatchObject({ exit: 0, err: "" });
    const settings = read(vendor);
    expect(settings.model).toBe("opus");
    expect(settings.hooks.Stop[0]).toEqual(OTHERS.hooks.Stop[0]);
    for (const event of Object.keys(HOOK_VENDORS[vendor].events)) {
      const [entry] = settings.hooks[event].at(-1).hooks;
      expect(entry.command).toMatch(
        new RegExp(`^sh \\S+/deploy/hook/fleet\\.sh hook ${vendor} ${event} --home ${join(home, "fleet")}$`),
      );
      expect(installed.out).toContain(`hook ${vendor} ${event}`);
    }
    expect(statSync(pathOf(vendor)).mode & 0o777).toBe(0o640);
    expect((await call("remove", vendor)).exit).toBe(0);
    expect(read(vendor)).toEqual(OTHERS);
  });

  test("a second install changes nothing, and doctor finds nothing wrong", async () => {
    await call("install", vendor);
    const before = readFileSync(pathOf(vendor), "utf8");
    expect((await call("install", vendor, "--json")).out).toContain('"changed": false');
    expect(readFileSync(pathOf(vendor), "utf8")).toBe(before);
    expect((await call("doctor", vendor)).exit).toBe(0);
  });

  test("seed 001 stale hooks: doctor finds a missing and an outdated hook, and install repairs both", async () => {
    await call("install", vendor);
    const settings = read(vendor);
    const [first, second] = Object.keys(HOOK_VENDORS[vendor].events);
    delete settings.hooks[first!];
    settings.hooks[second!][0].hooks[0].timeout = 1;
    writeFileSync(pathOf(vendor), JSON.stringify(settings));
    const { exit, out } = await call("doctor", vendor);
    expect(exit).toBe(1);
    expect(out).toContain(`Missing: ${first}.`);
    expect(out).toContain(`Out of date: ${second}.`);
    await call("install", vendor);
    expect((await call("doctor", vendor)).exit).toBe(0);
  });
});

test.each(["{", "[]", '{"hooks":[]}', '{"hooks":{"Stop":{}}}', '{"hooks":{"Stop":[1]}}'])(
  "settings of another form stay as they are: %s",
  async (text) => {
    const path = write("claude-code", text);
    for (const act of ["install", "remove", "doctor"]) {
      const { exit, err } = await call(act, "claude-code");
      expect(exit).toBe(64);
      expect(err).toContain(path);
    }
    expect(readFileSync(path, "utf8")).toBe(text);
  },
);

test("a dry run shows the difference and writes nothing", async () => {
  const { exit, out } = await call("install", "codex", "--dry-run");
  expect(exit).toBe(0);
  expect(out).toContain("Nothing was written.");
  expect(() => statSync(pathOf("codex"))).toThrow();
});

test("settings behind a link stay behind it", async () => {
  const path = pathOf("gemini");
  mkdirSync(dirname(path), { recursive: true });
  const target = join(home, "dotfiles.json");
  writeFileSync(target, "{}");
  symlinkSync(target, path);
  await call("install", "gemini");
  expect(JSON.parse(readFileSync(target, "utf8")).hooks.AfterAgent).toHaveLength(1);
});

test("an unknown vendor is refused with those that exist", async () => {
  const { exit, err } = await call("install", "cursor");
  expect(exit).toBe(64);
  expect(err).toContain("claude-code, codex, gemini");
});
