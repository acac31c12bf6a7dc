/** The place of a spool: one for each user and fleet, and earlier places only while commands wait there. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { BusAddress } from "../../../shared/sdk/address.ts";
import { commandLine } from "../../../shared/sdk/spool/line.ts";
import { spoolPlace, spoolRoot, waitingFor, writeNote } from "../../../shared/sdk/spool/places.ts";
import { spooled } from "./spool-command.ts";

const top = mkdtempSync(join(tmpdir(), "fleet-places-"));
const FLEET = "00000000000000aa";
const OTHER = "00000000000000bb";
const NAME = "default.coder";
const URL = "nats://localhost:5222";
let env: Record<string, string>;
let root: string;
let count = 0;

beforeEach(() => {
  count += 1;
  env = { XDG_STATE_HOME: join(top, `state-${count}`), FLEET_HOME: join(top, `home-${count}`) };
  root = spoolRoot(env);
});
afterAll(() => rmSync(top, { recursive: true, force: true }));

const named: BusAddress = { url: URL, origin: "from FLEET_URL" };
const recorded = (): BusAddress => ({
  url: URL,
  origin: "from a record",
  expected: { fleet: FLEET, home: env.FLEET_HOME ?? "" },
});
const pathOf = async (address: BusAddress, met?: string, dir?: string) =>
  (await spoolPlace({ dir, address, name: NAME, env }, met))?.path;
const waiting = (address: BusAddress, dir?: string) => waitingFor({ dir, address, name: NAME, env });

function waits(folder: string): void {
  mkdirSync(join(folder, NAME), { recursive: true });
  writeFileSync(join(folder, NAME, "open"), commandLine(spooled("a")));
}

test("the user's own state holds it, wherever the environment says", () => {
  expect(spoolRoot({ XDG_STATE_HOME: "/state" })).toBe("/state/fleet/spool");
  expect(spoolRoot({ XDG_STATE_HOME: "relative", HOME: "/h" })).toBe("/h/.local/state/fleet/spool");
});

describe("the place", () => {
  test("of a recorded fleet has its identity, whether it runs or not", async () => {
    expect(await pathOf(recorded())).toBe(join(root, FLEET, NAME));
    expect(await pathOf(recorded(), FLEET)).toBe(join(root, FLEET, NAME));
  });

  test("of a named address is that of the fleet which answered there", async () => {
    expect(await pathOf(named)).toBe(join(root, "at-loopback-5222", NAME));
    expect(await pathOf(named, FLEET)).toBe(join(root, FLEET, NAME));
    // Later, also without an answer.
    const note = { fleet: FLEET, url: "nats://127.0.0.1:5222", home: null };
    writeNote({ path: join(root, FLEET, NAME), note });
    expect(await pathOf(named)).toBe(join(root, FLEET, NAME));
    expect(await pathOf({ ...named, url: "nats://h:5222" })).toBe(join(root, "at-h-5222", NAME));
  });

  test("of an assumed address exists only once a fleet has answered", async () => {
    const assumed = { ...named, isAssumed: true };
    waits(join(root, "at-loopback-5222"));
    expect(await pathOf(assumed)).toBeUndefined();
    expect(await pathOf(assumed, FLEET)).toBe(join(root, FLEET, NAME));
  });

  test("is an earlier one while commands wait there", async () => {
    waits(join(root, "at-loopback-5222"));
    expect(await pathOf(named, FLEET)).toBe(join(root, "at-loopback-5222", NAME));
    expect(await pathOf(recorded(), FLEET)).toBe(join(root, FLEET, NAME));
    waits(join(env.FLEET_HOME ?? "", "spool"));
    expect(await pathOf(recorded(), FLEET)).toBe(join(env.FLEET_HOME ?? "", "spool", NAME));
    // They are for the fleet of that home, and not for the one of another address.
    expect(await pathOf({ ...named, url: "nats://h:1" }, OTHER)).toBe(join(root, OTHER, NAME));
  });

  test("is the one that a setting names", async () => {
    expect(await pathOf(recorded(), FLEET, "/spools")).toBe(join("/spools", NAME));
  });
});

test("commands wait for the fleet of their note, in any place", async () => {
  const folder = join(root, "at-loopback-5222");
  const note = { fleet: OTHER, url: URL, home: null };
  writeNote({ path: join(folder, NAME), note });
  expect(await waiting(named)).toBeUndefined();
  waits(folder);
  expect(await waiting(named)).toEqual({ fleet: OTHER, home: join(folder, NAME) });
  expect(await waiting({ ...named, url: "nats://h:1" }, dirname(join(folder, NAME)))).toMatchObject({
    fleet: OTHER,
  });
  writeNote({ path: join(folder, NAME), note: { ...note, fleet: null } });
  expect(await waiting(named)).toBeUndefined();
});
