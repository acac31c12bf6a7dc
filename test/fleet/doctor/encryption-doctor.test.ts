// `fleet doctor` on the machine of a fleet: whether all of it is encrypted, and whether others can read the keys.

import { chmodSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { checksOf, examine } from "./examination.ts";

const LAST_MS = 300_000;

let folder: string;
let fleet: TestFleet;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-encryption-doctor-"));
});
afterEach(async () => {
  await fleet.stop();
  rmSync(folder, { recursive: true, force: true });
});

const own = (env: Record<string, string> = {}) => ({
  FLEET_HOME: fleet.home,
  FLEET_URL: fleet.url,
  FLEET_SPOOL_DIR: join(folder, "spool"),
  ...env,
});
const files = async (env?: Record<string, string>) => checksOf(await examine(own(env)), "encryption.files");

test("a fleet without encryption is sound, as it asks for none", { timeout: LAST_MS }, async () => {
  fleet = await startFleet();
  expect(await files()).toMatchObject([
    { state: "ok", found: expect.stringContaining("nothing of this fleet") },
  ]);
});

test("parts that are not encrypted beside others, and keys that others read, are findings", {
  timeout: LAST_MS,
}, async () => {
  const key = join(folder, "root.key");
  newEncryptionKeyFile(key);
  const env = { FLEET_ENCRYPTION_KEY: `file:${key}` };
  fleet = await startFleet(env);
  await expect
    .poll(() => files(env), { timeout: 60_000, interval: 500 })
    .toMatchObject([
      { state: "ok", found: expect.stringMatching(/messages of the bus, files of the mirror/) },
    ]);
  const streamKey = join(fleet.home, "nats", "stream-key.json");
  renameSync(streamKey, `${streamKey}.away`);
  expect(await files(env)).toMatchObject([
    {
      state: "failed",
      found: expect.stringMatching(/^messages of the bus in .* are not encrypted/),
      fix: expect.stringContaining("FLEET_ENCRYPTION_KEY"),
    },
  ]);
  renameSync(`${streamKey}.away`, streamKey);

  const permissions = async () => checksOf(await examine(own(env)), "machine.permissions");
  expect(await permissions()).toMatchObject([{ state: "ok" }]);
  chmodSync(key, 0o644);
  expect(await permissions()).toMatchObject([{ state: "failed", found: expect.stringContaining(key) }]);
  chmodSync(key, 0o600);
});
