// A fleet that gets a key of encryption: what its bus had stored is encrypted at the next start, and is not served without the key.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startFleet } from "../../harness/processes/fleet.ts";

const CANARY = "canary-59d03b7ce1f84f21";
const home = mkdtempSync(join(tmpdir(), "fleet-encrypted-"));
const key = join(home, "encryption.key");
afterAll(() => rmSync(home, { recursive: true, force: true }));

test("messages of a plain fleet are encrypted at its next start with a key", async () => {
  const messages = join(home, "nats");
  const plain = await startFleet({}, { home });
  const writer = await plain.client("writer");
  const request = (goal: string) => ({
    taskId: "secret-task",
    checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" as const, goal } },
  });
  const first = await writer.createCheckpoint(request(`${CANARY} one`));
  // The offer has the work of the task, and lies in a stream.
  await writer.task("secret-task").handOff({ toAgentType: "qa" });
  await expect.poll(() => filesWith(messages, CANARY), { timeout: 60_000 }).not.toEqual([]);
  await plain.kill9();

  newEncryptionKeyFile(key);
  const env = { FLEET_ENCRYPTION_KEY: `file:${key}` };
  const encrypted = await startFleet(env, { home });
  expect(filesWith(messages, CANARY)).toEqual([]);
  const reader = await encrypted.client("writer");
  expect((await reader.getCheckpoint(first.checkpointId))?.execution_state.goal).toBe(`${CANARY} one`);
  const second = { ...request(`${CANARY} two`), taskId: "second-task" };
  await reader.createCheckpoint(second);
  await reader.task("second-task").handOff({ toAgentType: "qa" });
  await encrypted.killNats();
  await expect
    .poll(() => reader.createCheckpoint({ ...second, taskId: "third-task" }).then(({ outcome }) => outcome), {
      timeout: 60_000,
    })
    .toBe("committed");
  await encrypted.terminate();
  expect(filesWith(messages, CANARY)).toEqual([]);
  expect(filesWith(home, readFileSync(key, "utf8").trim()), "only the key file has the key").toEqual([key]);

  await expect(startFleet({}, { home })).rejects.toThrow("the streams of the bus are encrypted");
  const again = await startFleet(env, { home });
  // The running one first: each stop removes the home.
  for (const fleet of [again, encrypted, plain]) await fleet.stop();
}, 300_000);
