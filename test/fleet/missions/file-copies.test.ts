// The rows of the table "Edge Cases" of seed 002 that are about files, for the resumption of a mission of a real fleet.

import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { mirrorAs } from "../../shared/mirror/bench.ts";

const LAST_MS = 120_000;
const soon = { timeout: 30_000, interval: 50 };

let server: TestFleet;
let client: FleetClient;

beforeAll(async () => {
  // With threads, the store can be opened by this process too.
  server = await startFleet({ FLEET_THREADS: "2" });
  client = await server.client("dispatch");
});
afterAll(() => server.stop());

const file = (mission: string, id: string) => join(server.home, "checkpoints", mission, `chk-${id}.json`);

const resume = (mission: string) =>
  callCli(["resume", "--mission", mission, "--yes"], {
    env: { FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_SPOOL_DIR: join(server.home, "spool") },
  });

async function startMission(id: string) {
  const mission = client.mission(id);
  await mission.start({ title: id });
  await mission.addSorties([{ title: "part 1", assignedTo: "specialist-1" }, { title: "part 2" }]);
  return mission;
}

/** Records the mission; resolves when the checkpoint has its file. */
async function recorded(mission: string, note: string): Promise<string> {
  const { checkpointId } = await client.mission(mission).checkpoint({ note });
  await expect.poll(() => existsSync(file(mission, checkpointId)), soon).toBe(true);
  return checkpointId;
}

async function inStore(work: (store: Store) => Promise<unknown>): Promise<void> {
  const store = await openStore(`lmdb:${join(server.home, "store")}?shared`);
  await work(store);
  await store.close({ drainMs: 5_000 });
}

const loseRow = (mission: string, id: string) =>
  inStore((store) =>
    store.transact({ label: "lose", deadlineMs: 10_000, onUnknown: "safe" }, async (tx) =>
      tx.clear(tenantKeys("default").checkpoint(mission, id)),
    ),
  );

describe("002-edge", { timeout: LAST_MS }, () => {
  test("checkpoint file missing: the mission resumes from the store, with a warning to the user and in the log", async () => {
    await startMission("msn-no-file");
    const id = await recorded("msn-no-file", "kept");
    expect(await client.mission("msn-no-file").previewResume()).not.toHaveProperty("missing_copies");
    rmSync(file("msn-no-file", id));
    // A file that is still to be written is none that is missing.
    const missing = async () => (await client.mission("msn-no-file").previewResume()).missing_copies;
    await expect.poll(missing, soon).toEqual([id]);
    const { exit, out, err } = await resume("msn-no-file");
    expect([exit, out]).toEqual([0, expect.stringContaining(`Resuming from checkpoint: chk-${id}`)]);
    expect(err).toContain(
      "warning: the file of a checkpoint is missing in the mirror, and the store is used",
    );
    expect(server.output()).toContain("the file mirror has no copy of a checkpoint that is used");
  });

  test("SQLite record missing: the mission resumes from the file, with a warning", async () => {
    await startMission("msn-no-row");
    await recorded("msn-no-row", "older");
    const id = await recorded("msn-no-row", "newest");
    await loseRow("msn-no-row", id);
    const { exit, out, err } = await resume("msn-no-row");
    expect([exit, out]).toEqual([0, expect.stringContaining(`Resuming from checkpoint: chk-${id}`)]);
    expect(out).toContain("Recovery complete. Mission resumed.");
    expect(err).toContain("restored from the file mirror");
  });

  test("SQLite record missing: the command alone restores it too, and its answer names it", async () => {
    const mission = await startMission("msn-command");
    const id = await recorded("msn-command", "only");
    await loseRow("msn-command", id);
    expect(await mission.resume()).toMatchObject({ checkpointId: id, restoredCopies: [id], passedOver: [] });
    expect(await mission.resume()).not.toHaveProperty("restoredCopies");
  });

  test("both missing: an error without another checkpoint, else the previous one and a blocker", async () => {
    await startMission("msn-neither");
    const only = await recorded("msn-neither", "only");
    await loseRow("msn-neither", only);
    rmSync(file("msn-neither", only));
    const refused = await resume("msn-neither");
    expect(refused.exit).not.toBe(0);
    expect(refused.err).toContain("the mission has no checkpoint to resume from");
    const older = await recorded("msn-neither", "older");
    const newest = await recorded("msn-neither", "newest");
    await loseRow("msn-neither", newest);
    rmSync(file("msn-neither", newest));
    const { exit, out } = await resume("msn-neither");
    expect([exit, out]).toEqual([0, expect.stringContaining(`Resuming from checkpoint: chk-${older}`)]);
    expect(out).toContain(`Checkpoint ${newest} is corrupt; the mission resumed from an earlier one`);
  });

  test.each([
    ["older", "1.0", "the mission resumes from the migrated file"],
    ["newer", "9.0", "the resumption is refused, with the versions"],
  ])("schema version mismatch: the file is %s (%s): %s", async (age, schemaVersion) => {
    const mission = `msn-${age}`;
    await startMission(mission);
    const id = await recorded(mission, "only");
    await inStore((store) => mirrorAs({ path: server.home, store }, { task: mission, id, schemaVersion }));
    const { exit, out, err } = await resume(mission);
    if (age === "older") {
      expect([exit, out]).toEqual([0, expect.stringContaining(`Resuming from checkpoint: chk-${id}`)]);
      expect(err).toContain("restored from the file mirror");
      expect((await client.getCheckpoint(id))?.schema_version).toBe("1.1");
    } else {
      expect(exit).toBe(ERROR_TABLE.UNSUPPORTED_VERSION.exit);
      expect(err).toContain("the checkpoint's schema version is newer than this program");
      expect(err).toContain("9.0");
    }
  });

  test("corrupted checkpoint, and a file that was edited: the previous one is used", async () => {
    await startMission("msn-edited");
    const older = await recorded("msn-edited", "older");
    const newest = await recorded("msn-edited", "newest");
    await loseRow("msn-edited", newest);
    const copy = file("msn-edited", newest);
    writeFileSync(copy, readFileSync(copy, "utf8").replaceAll("part 2", "forged"));
    const { exit, out } = await resume("msn-edited");
    expect([exit, out]).toEqual([0, expect.stringContaining(`Resuming from checkpoint: chk-${older}`)]);
    expect(out).not.toContain("forged");
    const titles = (await client.mission("msn-edited").sorties()).sorties.map(({ title }) => title);
    expect(titles).toEqual(["part 1", "part 2"]);
  });
});
