// Records of anchors that are damaged in the store: the bundle has those before them, and says what it lacks.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../../shared/store/open.ts";
import {
  type BundleReport,
  verifyBundle,
} from "../../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";
import { startFleet } from "../../../harness/processes/fleet.ts";
import { input } from "../../../harness/records/records.ts";
import { WRITING } from "../../../harness/records/signed.ts";
import { callCli } from "../../../services/cli/call.ts";

const TEST_MS = 300_000;
const SOON = { timeout: 100_000, interval: 200 };

test("anchors behind a damaged record are left out", { timeout: TEST_MS }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-damaged-anchors-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const authority = await TimestampAuthority.start();
  onTestFinished(() => authority.close());
  const server = await startFleet({
    ...{ FLEET_GATEWAY_PORT: "-1", FLEET_SCRUB_EVERY: "off", FLEET_AUDIT_ANCHOR_EVERY: "1s" },
    ...{ FLEET_AUDIT_TSA_URL: authority.url, FLEET_AUDIT_TSA_CA: authority.caFile },
    FLEET_AUDIT_ANCHOR_FOLDER: join(folder, "kept"),
  });
  onTestFinished(() => server.stop());
  const client = await server.client();
  const sizes = async (target: "folder" | "timestamp") =>
    (await client.admin.auditAnchors({ target })).anchors.map(({ size }) => size);
  for (const count of [1, 2]) {
    await client.createCheckpoint({ taskId: "auth", checkpoint: input() });
    await expect.poll(async () => (await sizes("timestamp")).length, SOON).toBeGreaterThanOrEqual(count);
  }
  await expect.poll(async () => (await sizes("folder")).length, SOON).toBe(1);
  const store = await openStore(`lmdb:${join(server.home, "store")}?shared`);
  onTestFinished(() => store.close({ drainMs: 5_000 }));
  const damage = (size: number) =>
    store.transact(WRITING, async (tx) =>
      tx.set(tenantKeys("default").logAnchor("timestamp", size), Buffer.from("damaged")),
    );
  const exported = async (name: string): Promise<BundleReport> => {
    const bundle = join(folder, name);
    const env = { FLEET_URL: server.url, FLEET_HOME: server.home };
    expect(await callCli(["export", "--all", "--bundle", bundle], { env })).toMatchObject({ exit: 0 });
    return verifyBundle(bundle, { keys: null, kept: null });
  };
  const all = await sizes("timestamp");
  await damage(all.at(-1)!);
  const [kept] = all;
  const report = await exported("newest.tar");
  // Another one may have been made meanwhile.
  expect(report).toMatchObject({ ok: true, anchors: [{ target: "folder" }, { target: "timestamp" }] });
  expect(report.anchors_omitted_before).toBeGreaterThan(all.at(-1)!);
  expect(report.anchors[1]!.size).toBeGreaterThanOrEqual(kept!);
  const page = readFileSync(join(folder, "newest.tar"), "utf8");
  expect(page).toContain("Newest anchor (timestamp)");
});
