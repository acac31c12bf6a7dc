/** The disk of the store is full: an export saves what can be read and reports that it is not recorded, unless a promise of the access log forbids it. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { clear, fill, smallDisk } from "../../harness/small-disk.ts";
import { commandsOf, json } from "./commands.ts";

const PATIENT = { deadlineMs: 60_000 };
/** Below this no commit of the store begins. */
const LEFT_MIB = 1;

test("an export from a full disk is whole and reports that nothing records it; strict access logs and bundles refuse it", {
  timeout: 300_000,
}, async (context) => {
  const disk = smallDisk(96, context);
  const folder = mkdtempSync(join(tmpdir(), "fleet-full-disk-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const policy = join(folder, "policy.json");
  writeFileSync(policy, JSON.stringify({ tenants: { watched: { access_log: "strict" } } }));
  const fleet = await startFleet({
    ...{ FLEET_STORE: `lmdb:${join(disk, "store")}`, FLEET_DISK_MIN_FREE: "8MiB" },
    ...{ FLEET_POLICY: policy, FLEET_GATEWAY_PORT: "-1", FLEET_SCRUB_EVERY: "off" },
  });
  onTestFinished(() => fleet.stop());
  const run = commandsOf(() => fleet);
  const exported = (name: string, ...args: string[]) =>
    run("export", "--task", "kept", "--out", join(folder, name), "--timeout", "60s", "--json", ...args);
  for (const tenant of ["default", "watched"]) {
    const client = await fleet.client("agent-1", tenant);
    await client.createCheckpoint({ taskId: "kept", checkpoint: input(), ...PATIENT });
  }
  expect(await exported("room.jsonl", "--tenant", "watched")).toMatchObject({
    exit: 0,
    err: expect.not.stringContaining("UNRECORDED") as string,
  });
  fill(disk, LEFT_MIB);

  const { exit, out, err } = await exported("kept.jsonl");
  expect([exit, err]).toEqual([0, expect.stringContaining("EXPORT_UNRECORDED")]);
  expect(err).toContain("the disk of the store is full");
  expect(JSON.parse(out)).toMatchObject({ complete: true });
  const verified = json(run("export", "verify", join(folder, "kept.jsonl"), "--json"));
  expect(await verified).toMatchObject({ exit: 0, complete: true });

  // Its access log has no room for the entries of the reads, and `strict` promises them.
  const refused = await exported("watched.jsonl", "--tenant", "watched", "--timeout", "5s");
  // A busy machine may give no answer in time.
  expect([69, 75]).toContain(refused.exit);
  expect(existsSync(join(folder, "watched.jsonl"))).toBe(false);

  // Its seal would be an entry of the chain.
  const bundle = join(folder, "kept.tar");
  const unsealed = await run("export", "--task", "kept", "--bundle", bundle, "--timeout", "60s", "--json");
  expect([unsealed.exit, unsealed.err]).toEqual([69, expect.stringContaining("the disk is full")]);
  expect(readdirSync(folder).filter((name) => name.startsWith("kept.tar"))).toEqual([]);

  clear(disk);
  let calls = 0;
  const again = async () => {
    calls += 1;
    const { exit: code, err: text } = await exported(`again-${calls}.jsonl`);
    return [code, text.includes("UNRECORDED")];
  };
  await expect.poll(again, { timeout: 60_000 }).toEqual([0, false]);
});
