// A fleet whose store is encrypted: no content is in its data file, and it works as before; one that has plain rows encrypts them while it works.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sealedManifest } from "../../../services/standalone/backup/manifest.ts";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

const LAST_MS = 600_000;
const SOON = { timeout: 120_000, interval: 100 };
const PATIENT = { deadlineMs: 60_000 };
const CANARY = "canary4f0b6a52d9e14c7791ab";

let folder: string;
let home: string;
let key: string;
const running: TestFleet[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-encrypted-store-"));
  home = join(folder, "home");
  key = join(folder, "root.key");
  newEncryptionKeyFile(key);
});
afterEach(async () => {
  // The newest first, because it may still run: each stop removes the home.
  for (const one of running.splice(0).toReversed()) await one.stop();
  rmSync(folder, { recursive: true, force: true });
});

const encrypted = (keys = key) => ({ FLEET_ENCRYPTION_KEY: `file:${keys}` });

async function start(env: Record<string, string> = {}): Promise<TestFleet> {
  const fleet = await startFleet({ FLEET_MIRROR_DIR: "off", FLEET_GATEWAY_PORT: "-1", ...env }, { home });
  running.push(fleet);
  return fleet;
}

const storeFiles = () => filesWith(join(home, "store"), CANARY);

/** Content of every kind of record: checkpoints in two versions, a large one, a handoff with a reason, a mission with a sortie, its lock and a message, and a hold. */
async function writeContent(client: FleetClient): Promise<void> {
  const goal = `${CANARY} is the goal`;
  const { checkpointId } = await client.createCheckpoint({
    taskId: "secret",
    checkpoint: input({ goal }),
    ...PATIENT,
  });
  await client.updateCheckpoint(
    checkpointId,
    { execution_state: { current_focus: `${CANARY} again` } },
    PATIENT,
  );
  const large = Array.from({ length: 3_000 }, (_, n) => `${CANARY} item ${n} ${Math.random()}`);
  await client.createCheckpoint({
    taskId: "large",
    checkpoint: input({ pending_items: large.slice(0, 900) }),
    ...PATIENT,
  });
  await client.task("secret").handOff({ toAgentType: "qa", reason: `${CANARY} reason`, ...PATIENT });
  const mission = client.mission("msn-secret");
  await mission.start({ title: `${CANARY} mission` }, PATIENT);
}

async function isComplete(fleet: TestFleet): Promise<boolean> {
  const text = await (await fetch(`${fleet.opsUrl()}/metrics`)).text();
  return /^fleet_encryption_complete(\{[^}]*\})? 1$/m.test(text);
}

const search = async (client: FleetClient) =>
  (await client.searchCheckpoints({ text: CANARY, ...PATIENT })).checkpoints
    .map(({ metadata }) => metadata.task_id)
    .sort();

async function requireWorking(fleet: TestFleet, client: FleetClient): Promise<void> {
  await expect.poll(() => search(client), SOON).toEqual(expect.arrayContaining(["large", "secret"]));
  expect((await client.latest("secret", PATIENT)).checkpoint?.execution_state.goal).toBe(
    `${CANARY} is the goal`,
  );
  const env = {
    FLEET_URL: fleet.url,
    FLEET_HOME: home,
    FLEET_SPOOL_DIR: join(home, "spool"),
    ...encrypted(),
  };
  const scrub = await callCli(["scrub", "start", "--wait", "--timeout", "100s"], { env });
  expect([scrub.exit, scrub.err]).toEqual([0, ""]);
}

const callerOf = (fleet: TestFleet) => ({
  env: { FLEET_URL: fleet.url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool") },
});

async function doctorRow(fleet: TestFleet, ...args: string[]): Promise<unknown> {
  const { out } = await callCli(["doctor", "--json", ...args], callerOf(fleet));
  return JSON.parse(out).checks.find(({ code }: { readonly code: string }) => code === "encryption.rows");
}

async function shownEncryption(fleet: TestFleet): Promise<string> {
  const { exit, out } = await callCli(["keys", "encryption"], callerOf(fleet));
  expect(exit).toBe(0);
  return out;
}

test("no content is in the data file of an encrypted store, also after a kill and in a backup, and a restore needs the key", {
  timeout: LAST_MS,
}, async () => {
  const fleet = await start(encrypted());
  const client = await fleet.client("writer");
  await writeContent(client);
  await requireWorking(fleet, client);
  await expect.poll(() => isComplete(fleet), SOON).toBe(true);
  expect(storeFiles()).toEqual([]);
  const env = { FLEET_URL: fleet.url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool") };
  const rotated = await callCli(["keys", "encryption", "rotate", "--timeout", "100s", "--json"], { env });
  expect([rotated.exit, rotated.err]).toEqual([0, ""]);
  const keys = { bucket_keys_of_other_roots: 0, tenants_in_rotation: 0, rotations_pending: 0 };
  expect(JSON.parse(rotated.out)).toMatchObject({ state: "complete", ...keys });
  const shown = await callCli(["keys", "encryption"], { env });
  expect(shown.out).toContain("All rows with content are encrypted");
  const doctor = await callCli(["doctor", "--json"], { env });
  expect(JSON.parse(doctor.out).checks).toContainEqual(
    expect.objectContaining({ code: "encryption.rows", state: "ok" }),
  );
  const { entries } = await client.admin.tenantAudit({ limit: 100, ...PATIENT });
  expect(entries.filter(({ entry }) => entry.includes('"encryption_rotate"'))).toHaveLength(1);
  const backup = join(folder, "backup");
  expect(await callCli(["backup", backup], { env })).toMatchObject({ exit: 0 });
  expect(filesWith(backup, CANARY)).toEqual([]);
  await fleet.kill9();
  expect(storeFiles()).toEqual([]);
  // Neither without the key, nor with another one.
  await expect(start()).rejects.toThrow(/encrypted/);
  const other = join(folder, "other.key");
  newEncryptionKeyFile(other);
  await expect(start(encrypted(other))).rejects.toThrow(/key/);
  rmSync(join(home, "store"), { recursive: true });
  const refused = await callCli(["restore", backup], { env });
  expect(refused.exit).toBe(5);
  expect(refused.err).toContain("[CONFLICT]");
  expect(refused.err).toContain("FLEET_ENCRYPTION_KEY");
  expect(await callCli(["restore", backup], { env: { ...env, ...encrypted() } })).toMatchObject({
    exit: 0,
    err: "",
  });
  const restored = await start(encrypted());
  await requireWorking(restored, await restored.client("writer"));
  expect(storeFiles()).toEqual([]);
});

test("a fleet with a plain store encrypts it while it works, a restored backup of it has no byte of before, and another root key takes over", {
  timeout: LAST_MS,
}, async () => {
  const plain = await start();
  await writeContent(await plain.client("writer"));
  await expect.poll(async () => search(await plain.client("reader")), SOON).toContain("secret");
  expect(storeFiles()).not.toEqual([]);
  expect(await doctorRow(plain)).toMatchObject({ state: "ok" });
  expect(await doctorRow(plain, "--require", "encryption")).toMatchObject({ state: "failed" });
  await plain.terminate();
  const first = await start(encrypted());
  await expect.poll(() => isComplete(first), SOON).toBe(true);
  expect(await doctorRow(first)).toMatchObject({
    state: "warning",
    found: expect.stringContaining("started before the end of the conversion") as string,
  });
  expect(await shownEncryption(first)).toContain("Plain bytes from before");
  await requireWorking(first, await first.client("writer"));
  const backup = join(folder, "backup");
  const env = {
    FLEET_URL: first.url,
    FLEET_HOME: home,
    FLEET_SPOOL_DIR: join(home, "spool"),
    ...encrypted(),
  };
  expect(await callCli(["backup", backup, "--timeout", "60s"], { env })).toMatchObject({ exit: 0, err: "" });
  expect(filesWith(backup, CANARY)).toEqual([]);
  await first.kill9();
  const restore = async (): Promise<void> => {
    rmSync(join(home, "store"), { recursive: true });
    expect(await callCli(["restore", backup], { env })).toMatchObject({ exit: 0, err: "" });
  };
  // As an earlier version made it, whose copies had free pages: then the notice stays.
  const manifest = join(backup, "manifest.json");
  const whole = readFileSync(manifest, "utf8");
  const { hash: _, copied, ...earlier } = JSON.parse(whole);
  expect(copied).toBe("rows");
  writeFileSync(manifest, JSON.stringify(sealedManifest(earlier)));
  await restore();
  const doubtful = await start(encrypted());
  expect(await shownEncryption(doubtful)).toContain("Plain bytes from before");
  expect(await doctorRow(doubtful)).toMatchObject({
    state: "ok",
    found: expect.stringContaining("Plain bytes from before") as string,
  });
  await doubtful.kill9();
  writeFileSync(manifest, whole);
  await restore();
  const again = await start(encrypted());
  await requireWorking(again, await again.client("writer"));
  expect(storeFiles()).toEqual([]);
  expect(await doctorRow(again, "--require", "encryption")).toMatchObject({
    state: "ok",
    found: expect.not.stringContaining("Plain bytes") as string,
  });
  expect(await shownEncryption(again)).not.toContain("Plain bytes");
  await again.kill9();
  const next = join(folder, "next.key");
  newEncryptionKeyFile(next);
  const both = await start({ FLEET_ENCRYPTION_KEY: `file:${next},file:${key}` });
  const otherRoots = async () => {
    const text = await (await fetch(`${both.opsUrl()}/metrics`)).text();
    return (
      /^fleet_encryption_keys_rewrapped_total(\{[^}]*\})? ([1-9]\d*)$/m.test(text) &&
      /^fleet_encryption_other_roots(\{[^}]*\})? 0$/m.test(text)
    );
  };
  await expect.poll(otherRoots, SOON).toBe(true);
  await both.terminate();
});
