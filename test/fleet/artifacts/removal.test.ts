// The removal of artifacts that no checkpoint references, on a real fleet with a short grace time, and kills in the middle.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ArtifactReference, FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { fileOf, MIB, newFolder, uploadsOf } from "./bytes.ts";

const TEST_MS = 240_000;
const POLL = { timeout: 120_000, interval: 50 };
const deadlineMs = 60_000;
/** Long enough for a reference to follow an upload on a busy machine. */
const GRACE = "15s";

let server: TestFleet;
let client: FleetClient;
let folder: string;

beforeAll(async () => {
  folder = newFolder();
  server = await startFleet({ FLEET_ARTIFACTS_GRACE: GRACE, FLEET_RETENTION_EVERY: "off" });
  client = await server.client("agent-1");
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Stores a file, again if the fleet was killed meanwhile for longer than a request waits. */
async function put(name: string, size: number, onProgress?: () => void): Promise<ArtifactReference> {
  const { path } = fileOf(folder, name, size);
  for (let tries = 1; ; tries += 1) {
    try {
      return await client.artifacts.put(path, { onProgress });
    } catch (error) {
      if (tries === 5) throw error;
    }
  }
}

const isStored = async (hash: string): Promise<boolean> =>
  (await client.artifacts.stat(hash, { deadlineMs })) !== null;

/** The hashes in the tenant's audit trail, one for each removal. */
async function removals(): Promise<string[]> {
  const page = await client.admin.tenantAudit({ limit: 500, deadlineMs });
  return page.entries
    .map(({ entry }) => JSON.parse(entry) as { action: string; subject: { sha256: string } })
    .filter(({ action }) => action === "artifact_remove")
    .map(({ subject }) => subject.sha256);
}

test("an artifact without a reference goes after the grace time, with an audit entry; a referenced one stays until its checkpoint goes", {
  timeout: TEST_MS,
}, async () => {
  const kept = await put("kept", 1_000);
  const task = await client.takeTask("kept");
  const first = await task.checkpoint({ ...input(), artifacts: [kept] }, { deadlineMs });
  // A later version without it: the earlier version is stored too.
  await task.update(first.checkpointId, { artifacts: null }, { deadlineMs });
  const last = await task.checkpoint(input({ phase: "complete" }), { deadlineMs });
  const loose = await put("loose", 2_000);
  await expect.poll(() => isStored(loose.sha256), POLL).toBe(false);
  expect(await removals()).toEqual([loose.sha256]);
  expect(await client.artifacts.verify(kept.sha256)).toBe(1_000);

  await task.finalize(last.checkpointId, "succeeded", { deadlineMs });
  await client.admin.retention.remove(first.checkpointId, { taskId: "kept", deadlineMs });
  expect(await client.artifacts.verify(kept.sha256)).toBe(1_000);
  await expect.poll(() => isStored(kept.sha256), POLL).toBe(false);
  await expect.poll(() => uploadsOf(server.home), POLL).toEqual([]);
  expect(await removals()).toEqual([loose.sha256, kept.sha256]);
  expect(await client.artifacts.list({ deadlineMs })).toMatchObject({ artifacts: [], total_bytes: 0 });
});

test("a fleet that is killed during an upload stores the artifact whole", { timeout: TEST_MS }, async () => {
  let killed: Promise<void> | undefined;
  const restart = async (): Promise<void> => {
    await server.kill9();
    await server.start();
  };
  const reference = await put("killed", 12 * MIB, () => {
    killed ??= restart();
  });
  expect(killed).toBeDefined();
  await killed;
  const { outcome } = await client
    .task("killed")
    .checkpoint({ ...input(), artifacts: [reference] }, { deadlineMs });
  expect(outcome).toBe("committed");
  expect(await client.artifacts.verify(reference.sha256)).toBe(12 * MIB);
  // What an interrupted attempt left goes too.
  await expect.poll(() => uploadsOf(server.home), POLL).toHaveLength(1);
  await expect
    .poll(async () => (await client.artifacts.list({ deadlineMs })).total_bytes, POLL)
    .toBe(12 * MIB);
});

test("a fleet that is killed during removals removes each artifact once and its bytes too", {
  timeout: TEST_MS,
}, async () => {
  const before = (await removals()).length;
  const loose: string[] = [];
  for (let n = 0; n < 40; n += 1) loose.push((await put(`loose-${n}`, 3_000 + n)).sha256);
  const left = async (): Promise<number> => {
    const stored = await Promise.all(loose.map(isStored));
    return stored.filter(Boolean).length;
  };
  await expect.poll(left, POLL).toBeLessThan(loose.length);
  await server.kill9();
  // As a crash after the removal of the record and before that of the bytes leaves them.
  const [whole] = uploadsOf(server.home);
  const orphan = join(dirname(whole!.folder), uuidv7());
  mkdirSync(orphan);
  writeFileSync(join(orphan, "0"), "left over");
  await server.start();
  await expect.poll(left, POLL).toBe(0);
  await expect.poll(() => uploadsOf(server.home), POLL).toHaveLength(1);
  const audited = (await removals()).slice(before);
  expect(audited.sort()).toEqual([...loose].sort());
  const { artifacts } = await client.artifacts.list({ deadlineMs });
  expect(artifacts).toHaveLength(1);
  expect(await client.artifacts.verify(artifacts[0]!.sha256)).toBe(12 * MIB);
});
