// `fleet scrub` on a fleet with a damaged store: bits are flipped in the engine's file while the fleet is stopped, and
// records are removed behind its back while it runs.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 90_000;
const MARK = "GoalThatIsFoundOnDisk";

let server: TestFleet;
let client: FleetClient;

const fleet = (...args: string[]): Promise<Result> =>
  callCli(args, {
    env: { FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_SPOOL_DIR: join(server.home, "spool") },
  });

async function json(...args: string[]) {
  const { exit, out } = await fleet(...args, "--json");
  return { exit, data: JSON.parse(out) };
}

async function written(taskId: string, goal: string): Promise<string> {
  // Longer than a busy machine needs: a command that is queued meanwhile is not in the store yet.
  const waiting = { deadlineMs: 30_000 };
  const { checkpointId } = await client.createCheckpoint({ taskId, checkpoint: input({ goal }), ...waiting });
  return String(checkpointId);
}

/** Flips one bit in every copy of a text in the files of the store, and returns the number of copies. */
function flipOnDisk(text: string): number {
  let flipped = 0;
  const folder = join(server.home, "store");
  for (const { name } of readdirSync(folder, { withFileTypes: true }).filter((one) => one.isFile())) {
    const bytes = readFileSync(join(folder, name));
    const before = flipped;
    for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) {
      bytes[at]! ^= 1;
      flipped += 1;
    }
    if (flipped > before) writeFileSync(join(folder, name), bytes);
  }
  return flipped;
}

beforeAll(async () => {
  // Passes start only on request. With threads, the store can be opened by other processes too.
  // Without the mirror, from which the damage would be repaired.
  server = await startFleet({ FLEET_SCRUB_EVERY: "off", FLEET_THREADS: "2", FLEET_MIRROR_DIR: "off" });
  client = await server.client();
});
afterAll(() => server.stop());

describe("fleet scrub", { timeout: CALLS_MS }, () => {
  test("reports a store that was never verified, then one without damage", async () => {
    for (let n = 0; n < 5; n += 1) await written("sound", `part ${n}`);
    const before = await fleet("scrub");
    expect(before).toMatchObject({ exit: 0, err: "" });
    expect(before.out).toContain("Last pass: never verified");
    const { exit, data } = await json("scrub", "start", "--wait");
    expect(exit).toBe(0);
    expect(data).toMatchObject({
      // With the task and the checkpoint that warmed the fleet up.
      last: { pass: 1, tasks: 2, checkpoints: 6, findings: 0 },
      current: null,
      requested_pass: null,
      findings: [],
    });
    const after = await fleet("scrub");
    expect(after).toMatchObject({ exit: 0, err: "" });
    expect(after.out).toMatch(/Last pass: no damage, pass 1, ended (.* ago|just now)/);
    expect(after.out).toContain("only on request");
    expect(await fleet("scrub", "findings")).toMatchObject({ exit: 0, out: "No findings.\n" });
  });

  test("starts a pass without waiting for it", async () => {
    const { exit, out } = await fleet("scrub", "start");
    expect(exit).toBe(0);
    expect(out).toMatch(/^Requested: pass 2\n/);
    await expect.poll(async () => (await client.admin.scrubStatus()).last?.pass, { timeout: 20_000 }).toBe(2);
  });

  test("finds flipped bits on the disk, and quarantines the damaged checkpoint", async () => {
    const first = await written("on-disk", "sound");
    const second = await written("on-disk", MARK);
    // Otherwise the indexer would read the checkpoint first and quarantine it.
    await expect.poll(async () => (await client.admin.indexStatus()).behind, { timeout: 20_000 }).toBe(0);
    await server.terminate();
    expect(flipOnDisk(MARK)).toBeGreaterThan(0);
    await server.start();
    const { exit, data } = await json("scrub", "start", "--wait");
    expect(exit).toBe(8);
    expect(data.findings).toMatchObject([
      { task_id: "on-disk", kind: "checkpoint", checkpoint_id: second, quarantined: true },
    ]);
    // No query has read the damaged checkpoint, so the scrub was the first to find it.
    expect((await client.getLatestCheckpoint("on-disk"))?.metadata.checkpoint_id).toBe(first);
    const trail = await client.getAudit("on-disk");
    expect(trail.entries.at(-1)?.entry).toContain('"op":"quarantine"');
    const again = await json("scrub", "start", "--wait");
    expect(again).toMatchObject({ exit: 0, data: { last: { findings: 0, quarantined: 1 } } });
    expect((await fleet("scrub")).out).toContain("Known damage: 1 version in quarantine");
    const listed = await fleet("scrub", "findings");
    expect(listed.exit).toBe(0);
    expect(listed.out).toMatch(
      /^No findings\. In quarantine since earlier.*: 1 version\.\n.*checkpoint list --all` warns/,
    );
    expect((await fleet("checkpoint", "list", "--all")).err).toContain(second);
  });

  test("finds removed records, reports them in full, and alerts operators", async () => {
    await written("taken-out", "one");
    await written("taken-out", "two");
    const store = await openStore(`lmdb:${join(server.home, "store")}?shared`);
    const write = { label: "damage", deadlineMs: 5_000, onUnknown: "safe" } as const;
    await store.transact(write, async (tx) => tx.clear(tenantKeys("default").order("taken-out", 1)));
    await store.close({ drainMs: 1_000 });
    const { exit, out } = await fleet("scrub", "start", "--wait");
    expect(exit).toBe(8);
    expect(out).toMatch(/Last pass: 1 finding, pass \d/);
    expect(out).toMatch(/^order +taken-out .*the entry of position 1 in the order is lost$/m);
    const listed = await fleet("scrub", "findings");
    expect(listed.exit).toBe(8);
    expect(listed.out).toContain("1 finding");
    await expect
      .poll(async () => (await json("alerts", "list")).data.alerts.map((one: { alert: object }) => one.alert))
      .toMatchObject([
        { type: "SCRUB_FOUND", severity: "critical", data: { taskId: "taken-out", kind: "order" } },
      ]);
    const metrics = await (await fetch(`${server.opsUrl()}/metrics`)).text();
    expect(metrics).toMatch(/^fleet_scrub_findings_total\{[^}]*kind="order"[^}]*\} 1$/m);
    expect(metrics).toMatch(/^fleet_scrub_age_seconds(\{[^}]*\})? \d/m);
  });
});
