// The file mirror of real fleets, and the rows of the table "Edge Cases" of seed 002 that are about files.

import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { hashOf } from "../../../shared/integrity/seal.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { pauseProcess } from "../../harness/processes/pause.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

const TASK = "mirrored";
const LAST_MS = 90_000;
const soon = { timeout: 30_000, interval: 50 };

let fleet: TestFleet;
let client: FleetClient;

beforeEach(async () => {
  // With threads, the store can be opened by this process too.
  fleet = await startFleet({ FLEET_THREADS: "2" });
  client = await fleet.client();
}, LAST_MS);
afterEach(() => fleet.stop());

const at = (...names: string[]) => join(fleet.home, "checkpoints", ...names);
const file = (id: string) => at(TASK, `chk-${id}.json`);
const cli = (...args: string[]) =>
  callCli(args, {
    env: { FLEET_URL: fleet.url, FLEET_HOME: fleet.home, FLEET_SPOOL_DIR: join(fleet.home, "spool") },
  });

async function written(goal: string, by = client): Promise<string> {
  const { checkpointId } = await by.createCheckpoint({ taskId: TASK, checkpoint: input({ goal }) });
  return String(checkpointId);
}

/** Waits until the newest file is that of the checkpoint. */
async function mirrored(id: string, tenant?: string): Promise<void> {
  const path = tenant === undefined ? at(TASK, "latest.json") : at(`=${tenant}`, TASK, "latest.json");
  await expect
    .poll(() => existsSync(path) && JSON.parse(readFileSync(path, "utf8")).metadata.checkpoint_id, soon)
    .toBe(id);
}

async function loseRow(id: string): Promise<void> {
  const store = await openStore(`lmdb:${join(fleet.home, "store")}?shared`);
  await store.transact({ label: "lose", deadlineMs: 10_000, onUnknown: "safe" }, async (tx) =>
    tx.clear(tenantKeys("default").checkpoint(TASK, id)),
  );
  await store.close({ drainMs: 5_000 });
}

test("the standalone fleet mirrors every checkpoint into its folder, for its owner only", {
  timeout: LAST_MS,
}, async () => {
  const id = await written("first");
  await mirrored(id);
  const stored = await client.getCheckpoint(id);
  expect(JSON.parse(readFileSync(file(id), "utf8"))).toEqual(stored);
  expect(lstatSync(file(id)).mode & 0o777).toBe(0o600);
  for (const folder of [at(), at(TASK)]) expect(lstatSync(folder).mode & 0o777).toBe(0o700);
  const theirs = await fleet.client("tester", "acme");
  await mirrored(await written("theirs", theirs), "acme");
});

test("a killed fleet completes its mirror after the restart", { timeout: LAST_MS }, async () => {
  const ids = [await written("n 0")];
  for (let n = 1; n < 30; n += 1) ids.push(await written(`n ${n}`));
  await fleet.kill9();
  await fleet.start();
  await mirrored(ids.at(-1)!);
  for (const id of ids)
    expect(hashOf(JSON.parse(readFileSync(file(id), "utf8")))).toBe(
      (await client.getCheckpoint(id))?.compliance.hash,
    );
  expect(readdirSync(at(TASK)).filter((name) => name.endsWith(".part"))).toEqual([]);
});

test("a mirror that cannot be written delays no checkpoint, warns once, and is completed later", {
  timeout: LAST_MS,
}, async () => {
  await mirrored(await written("before"));
  // Paused: between the two calls the mirror would make the folder again.
  pauseProcess(fleet.pid());
  renameSync(at(), `${at()}.aside`);
  writeFileSync(at(), "a file in the place of the folder");
  process.kill(fleet.pid(), "SIGCONT");
  const ids = [];
  for (let n = 0; n < 5; n += 1) ids.push(await written(`during ${n}`));
  await expect.poll(() => fleet.output(), soon).toContain("the file mirror does not receive checkpoints");
  rmSync(at());
  await mirrored(ids.at(-1)!);
  for (const id of ids) expect(existsSync(file(id))).toBe(true);
  expect(fleet.output().split("the file mirror does not receive checkpoints")).toHaveLength(2);
});

test("edge case: checkpoint file missing → the store is used", { timeout: LAST_MS }, async () => {
  const id = await written("kept");
  await mirrored(id);
  rmSync(file(id));
  const { exit, out } = await cli("resume", TASK);
  expect([exit, out]).toEqual([0, expect.stringContaining("kept")]);
});

test("edge case: SQLite record missing → the file is used, with a warning", {
  timeout: LAST_MS,
}, async () => {
  await written("older");
  const id = await written("newest");
  await mirrored(id);
  await loseRow(id);
  const { exit, out, err } = await cli("resume", TASK);
  expect([exit, out]).toEqual([0, expect.stringContaining("newest")]);
  expect(err).toContain("restored from the file mirror");
  expect((await cli("audit", "show", TASK)).out).toMatch(/ 3 .*restore.*reader/);
  expect((await cli("audit", "verify", TASK)).exit).toBe(0);
});

test("edge case: both missing → an error, and the task continues from the checkpoint before", {
  timeout: LAST_MS,
}, async () => {
  const older = await written("older");
  const id = await written("newest");
  await mirrored(id);
  await loseRow(id);
  rmSync(file(id));
  const shown = await cli("checkpoint", "show", id);
  expect([shown.exit, shown.err]).toEqual([8, expect.stringContaining("does not verify")]);
  const { checkpoint, passed_over } = await client.latest(TASK);
  expect([checkpoint?.metadata.checkpoint_id, passed_over[0]?.checkpoint_id]).toEqual([older, id]);
});

test("edge case: both missing, and no other checkpoint → recovery is refused", {
  timeout: LAST_MS,
}, async () => {
  const id = await written("only");
  await mirrored(id);
  await loseRow(id);
  rmSync(file(id));
  const { exit, err } = await cli("resume", TASK);
  expect([exit, err]).toEqual([8, expect.stringContaining("no sound checkpoint")]);
});

test("edge case: corrupted checkpoint and corrupted file → the previous checkpoint, with a warning", {
  timeout: LAST_MS,
}, async () => {
  await written("older");
  const id = await written("newest");
  await mirrored(id);
  await loseRow(id);
  writeFileSync(file(id), readFileSync(file(id), "utf8").replace("newest", "forged"));
  const { exit, out, err } = await cli("resume", TASK);
  expect([exit, out]).toEqual([0, expect.stringContaining("older")]);
  expect(out).not.toContain("forged");
  expect(err).toContain("corrupt");
});

test("FLEET_MIRROR_DIR=off keeps the folder empty", { timeout: LAST_MS }, async () => {
  const without = await startFleet({ FLEET_MIRROR_DIR: "off" });
  const theirs = await without.client();
  await theirs.createCheckpoint({ taskId: TASK, checkpoint: input() });
  await without.terminate();
  expect(readdirSync(without.home)).not.toContain("checkpoints");
  await without.stop();
});
