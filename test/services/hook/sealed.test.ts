// Events that are sealed before they are on disk: they wait unreadable, reach the fleet, and are set aside without their key.

import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { openHooks, type TestHooks } from "./hook-process.ts";
import { payloadsOf, type VendorPayloads } from "./payloads.ts";

const LAST_MS = 180_000;
const SOON = { timeout: 60_000 };
const SILENT = { exit: 0, out: "", err: "" };
const CANARY = "canary-90d2c4f1a7be3856";
let fleet: TestFleet;
let reader: FleetClient;
let hooks: TestHooks;
let payloads: VendorPayloads;
let keys: string;
let tests = 0;
let task: string;

beforeAll(async () => {
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  reader = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
}, LAST_MS);
afterAll(() => fleet?.stop(), LAST_MS);

beforeEach(() => {
  tests += 1;
  task = `task-${tests}`;
  hooks = openHooks("claude-code", {
    FLEET_HOME: fleet.home,
    FLEET_AGENT_ID: `agent-${tests}`,
    FLEET_TASK: task,
    FLEET_HOOK_WAIT: "300",
  });
  keys = join(hooks.folder, "keys");
  const cwd = join(hooks.folder, "work");
  for (const folder of [keys, cwd]) mkdirSync(folder);
  for (const name of ["first", "second"]) newEncryptionKeyFile(join(keys, name));
  payloads = payloadsOf("claude-code", `session-${tests}`, { cwd, transcript: join(cwd, "none") });
});
afterEach(() => hooks.stop());

const sealing = (name: string) => ({ FLEET_SPOOL_KEY: `file:${join(keys, name)}` });
const inbox = () => readdirSync(join(hooks.folder, "inbox"));
const saved = () =>
  expect.poll(
    async () =>
      (await reader.getLatestCheckpoint(task, { deadlineMs: 20_000 }))?.metrics.files_modified ?? [],
    SOON,
  );
const messages = () => hooks.log().map(({ msg }) => msg);

const emptied = () => expect.poll(inbox, SOON).toEqual([]);

/** The helper has read the events that wait. */
const helperTries = () => expect.poll(messages, SOON).toContain("the fleet does not take events now");

async function helperEnds(): Promise<void> {
  hooks.killHelpers();
  await hooks.killedEnded();
}

test(
  "sealed events wait unreadable while the fleet is away, and their work is saved when it is back",
  async () => {
    await hooks.run(...payloads.start("startup"), sealing("first"));
    await emptied();
    await fleet.kill9();
    for (const event of [
      payloads.prompt(CANARY),
      payloads.edit(`${CANARY}.ts`),
      payloads.stop(false, CANARY),
    ])
      expect(await hooks.run(...event, sealing("first"))).toEqual(SILENT);
    expect(inbox().length).toBe(3);
    for (const name of inbox()) expect(statSync(join(hooks.folder, "inbox", name)).mode & 0o777).toBe(0o600);
    expect(filesWith(hooks.folder, CANARY)).toEqual([]);
    await fleet.start();
    await emptied();
    await saved().toEqual([`${CANARY}.ts`]);
    expect(filesWith(hooks.folder, CANARY)).toEqual([]);
  },
  LAST_MS,
);

test(
  "an event whose key is gone is set aside, others reach the fleet, and a later helper with the key sends it",
  async () => {
    await fleet.kill9();
    await hooks.run(...payloads.edit("old.ts"), sealing("first"));
    await helperTries();
    await helperEnds();
    renameSync(join(keys, "first"), join(keys, "away"));
    await fleet.start();
    await hooks.run(...payloads.edit("new.ts"), sealing("second"));
    await hooks.run(...payloads.stop(false, "Done."), sealing("second"));
    await saved().toEqual(["new.ts"]);
    await expect.poll(messages, SOON).toContain("an event of an agent was set aside");
    await expect.poll(inbox, SOON).toEqual([expect.stringMatching(/\.event\.sealed$/)]);
    await helperEnds();
    renameSync(join(keys, "away"), join(keys, "first"));
    await hooks.run(...payloads.stop(false, "Done again."), sealing("second"));
    await emptied();
    await hooks.run(...payloads.stop(false, "Done at last."), sealing("second"));
    await saved().toEqual(expect.arrayContaining(["new.ts", "old.ts"]));
  },
  LAST_MS,
);

test(
  "a sealed event with another name is set aside, and stays as it is",
  async () => {
    await fleet.kill9();
    await hooks.run(...payloads.edit("moved.ts"), sealing("first"));
    await helperTries();
    await helperEnds();
    const [name = ""] = inbox();
    const other = `${name.slice(0, 14)}-1.event`;
    const bytes = readFileSync(join(hooks.folder, "inbox", name));
    renameSync(join(hooks.folder, "inbox", name), join(hooks.folder, "inbox", other));
    await fleet.start();
    await hooks.run(...payloads.edit("sound.ts"), sealing("first"));
    await hooks.run(...payloads.stop(false, "Done."), sealing("first"));
    await saved().toEqual(["sound.ts"]);
    await expect.poll(inbox, SOON).toEqual([`${other}.sealed`]);
    expect(readFileSync(join(hooks.folder, "inbox", `${other}.sealed`)).equals(bytes)).toBe(true);
    expect(hooks.log().map(({ problem }) => problem)).toContain("a sealed event was changed or moved");
  },
  LAST_MS,
);

test.each([
  ["is missing", () => "file:/nowhere/key", "/nowhere/key"],
  [
    "is open to other users",
    () => {
      chmodSync(join(keys, "first"), 0o644);
      return `file:${join(keys, "first")}`;
    },
    "is open to other users",
  ],
  ["is a secret that was pasted by mistake", () => `${CANARY}=`, "names no file:/path"],
  ["is followed by such a secret", () => `file:${join(keys, "first")},${CANARY}=`, "names no file:/path"],
  [
    "is followed by another one in a new line",
    () => `file:${join(keys, "first")}\nfile:${join(keys, "second")}`,
    "names no file:/path",
  ],
  ["has a path in the working folder", () => "file:keys/first", "names no file:/path"],
])(
  "with a key that %s nothing is written in clear, the log says why, and the agent continues",
  async (_, value, problem) => {
    const env = { FLEET_SPOOL_KEY: value() };
    expect(await hooks.run(...payloads.prompt(CANARY), env)).toEqual(SILENT);
    expect(existsSync(join(hooks.folder, "inbox")) ? inbox() : []).toEqual([]);
    expect(hooks.log()).toMatchObject([
      { msg: "an event of an agent was lost", problem: expect.stringContaining(problem) },
    ]);
    expect(filesWith(hooks.folder, CANARY)).toEqual([]);
  },
);
