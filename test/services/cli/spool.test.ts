// `fleet spool` for fleets that do not exist any more: their commands stay until an operator decides.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { commandLine } from "../../../shared/sdk/spool/line.ts";
import { writeNote } from "../../../shared/sdk/spool/places.ts";
import { spooled } from "../../shared/sdk/spool-command.ts";
import { callCli } from "./call.ts";

const root = mkdtempSync(join(tmpdir(), "fleet-cli-spool-"));
const OLD = "00000000000000aa";
const NEW = "00000000000000bb";
const URL = "nats://127.0.0.1:1";
let home: string;
let state: string;
let count = 0;

beforeEach(() => {
  count += 1;
  home = join(root, `home-${count}`);
  state = join(root, `state-${count}`);
  mkdirSync(home);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const fleet = (...args: string[]) =>
  callCli(args, { env: { XDG_STATE_HOME: state, FLEET_HOME: home, FLEET_SPOOL_DIR: "" } });

/** A spool with two commands for a fleet. */
function spool(id: string | null, of: string | null = home): string {
  const path = join(state, "fleet", "spool", id ?? "at-loopback-1", "default.coder");
  writeNote({ path, note: { fleet: id, url: URL, home: of } });
  writeFileSync(join(path, "open"), Buffer.concat([commandLine(spooled("a")), commandLine(spooled("b"))]));
  return path;
}

const record = (id: string) =>
  writeFileSync(join(home, "addresses.json"), JSON.stringify({ busUrl: URL, fleet: id, pid: 1 }));

describe("status", () => {
  test("states for each spool whether its fleet is still in its folder", async () => {
    const states = async () =>
      JSON.parse((await fleet("spool", "status", "--json")).out).spools.map(
        (one: { fleet: string; fleet_state: string }) => [one.fleet, one.fleet_state],
      );
    spool(OLD);
    spool(null, null);
    record(OLD);
    expect(await states()).toEqual([
      [OLD, "recorded"],
      [null, "address"],
    ]);
    record(NEW);
    expect((await states())[0]).toEqual([OLD, "replaced"]);
    rmSync(home, { recursive: true });
    expect((await states())[0]).toEqual([OLD, "deleted"]);
  });

  test("names the commands for those of a fleet that was deleted, and the folder", async () => {
    const path = spool(OLD);
    record(NEW);
    const { out } = await fleet("spool", "status");
    expect(out).toContain(`in ${join(path, "..")}\n`);
    expect(out).toContain(
      `The fleet ${OLD} of ${home} was deleted, and another fleet is in its folder. Its commands stay until you decide:\n`,
    );
    expect(out).toContain(`fleet spool redirect ${OLD} `);
    expect(out).toContain(`fleet spool drop ${OLD} --yes `);
  });
});

describe("drop", () => {
  test("removes the commands for one fleet, and only with --yes", async () => {
    const [old, kept] = [spool(OLD), spool(NEW)];
    expect(await fleet("spool", "drop", OLD)).toMatchObject({ exit: 64, out: "" });
    expect(existsSync(old)).toBe(true);
    const dropped = await fleet("spool", "drop", OLD, "--yes", "--json");
    expect(JSON.parse(dropped.out)).toEqual({ dropped: 2, spools: [old] });
    expect([existsSync(old), existsSync(kept)]).toEqual([false, true]);
  });

  test.each([["ff00"], ["0"], [""]])("of fleet %j, for which none wait, is refused", async (name) => {
    spool(OLD);
    const refused = await fleet("spool", "drop", name, "--yes");
    expect(refused).toMatchObject({ exit: 64 });
    expect(refused.err).toContain(`no commands wait for a fleet ${JSON.stringify(name)}`);
  });
});

test("redirect changes nothing while no fleet answers", async () => {
  spool(OLD);
  record(NEW);
  expect((await fleet("spool", "redirect", OLD, "--timeout", "200ms")).exit).toBe(69);
  const [one] = JSON.parse((await fleet("spool", "status", "--json")).out).spools;
  expect(one).toMatchObject({ fleet: OLD, commands: 2 });
});
