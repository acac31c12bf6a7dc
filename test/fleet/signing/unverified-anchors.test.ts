// A time-stamp authority whose certificates no setting names: its time-stamps are kept, and everything says that they are unverified.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { TimestampAuthority } from "../../harness/anchors/timestamp-authority.ts";
import { makeAuthority, makeCertificate } from "../../harness/certificates.ts";
import { startFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { checksOf, examine } from "../doctor/examination.ts";

const TEST_MS = 300_000;

test("a time-stamp of any authority is marked in the list, by the doctor, and in a bundle", {
  timeout: TEST_MS,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-unverified-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  makeAuthority(folder, "ca");
  makeCertificate(folder, "web");
  const read = (name: string) => readFileSync(join(folder, name));
  const authority = await TimestampAuthority.start({}, { key: read("web.key"), cert: read("web.pem") });
  onTestFinished(() => authority.close());
  const server = await startFleet({
    ...{ FLEET_SCRUB_EVERY: "off", FLEET_GATEWAY_PORT: "-1" },
    FLEET_AUDIT_TSA_URL: authority.url,
    NODE_EXTRA_CA_CERTS: join(folder, "ca.pem"),
  });
  onTestFinished(() => server.stop());
  const env = {
    ...{ FLEET_URL: server.url, FLEET_HOME: server.home },
    FLEET_SPOOL_DIR: join(server.home, "spool"),
  };
  const client = await server.client();
  const doctor = async () => checksOf(await examine(env), "signing.anchors");
  await client.createCheckpoint({ taskId: "auth", checkpoint: input() });
  const kept = async () => (await client.admin.auditAnchors()).anchors;
  await expect
    .poll(kept, { timeout: 100_000, interval: 200 })
    .toMatchObject([{ target: "timestamp", verified: false }]);
  expect((await callCli(["audit", "anchors"], { env })).out).toContain("UNVERIFIED");
  expect(await doctor()).toMatchObject([
    { state: "warning", fix: expect.stringContaining("FLEET_AUDIT_TSA_CA") as string },
  ]);
  const bundle = join(folder, "all.tar");
  expect(await callCli(["export", "--all", "--bundle", bundle], { env })).toMatchObject({
    exit: 0,
    out: expect.stringContaining("NOT VERIFIED") as string,
  });
  const named = ["export", "verify", bundle, "--tsa-ca", authority.caFile];
  expect(await callCli(named, { env })).toMatchObject({
    exit: 0,
    out: expect.stringContaining("an authority that you trust") as string,
  });
});
