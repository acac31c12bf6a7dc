// `fleet audit anchors` on a running fleet with a folder and a time-stamp authority, over HTTP as well; and what an auditor does with them.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { TimestampAuthority } from "../../harness/anchors/timestamp-authority.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;
const SOON = { timeout: 100_000, interval: 200 };

let authority: TimestampAuthority;
let server: TestFleet;
let client: FleetClient;
let folder: string;

beforeAll(async () => {
  authority = await TimestampAuthority.start();
  folder = mkdtempSync(join(tmpdir(), "fleet-anchored-"));
  server = await startFleet({
    FLEET_SCRUB_EVERY: "off",
    FLEET_GATEWAY_PORT: "-1",
    FLEET_AUDIT_ANCHOR_FOLDER: join(folder, "kept"),
    FLEET_AUDIT_TSA_URL: authority.url,
    FLEET_AUDIT_TSA_CA: authority.caFile,
  });
  client = await server.client();
}, CALLS_MS);
afterAll(async () => {
  await server?.stop();
  await authority.close();
  rmSync(folder, { recursive: true, force: true });
});

const fleet = (...args: string[]) =>
  callCli(args, {
    env: { FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_SPOOL_DIR: join(server.home, "spool") },
  });

test("an auditor verifies the time of a checkpoint with openssl, and that the log continues it", {
  timeout: CALLS_MS,
}, async () => {
  await client.createCheckpoint({ taskId: "auth", checkpoint: input() });
  const targets = async () => (await client.admin.auditAnchors()).anchors.map(({ target }) => target).sort();
  await expect.poll(targets, SOON).toEqual(["folder", "timestamp"]);
  const evidence = join(folder, "evidence");
  const listed = await fleet("audit", "anchors", "--out", evidence);
  expect(listed).toMatchObject({ exit: 0, out: expect.stringContaining("time-stamp (RFC 3161)") });
  const names = readdirSync(evidence);
  const first = join(evidence, names.find((name) => name.endsWith(".txt"))!);
  const own = readFileSync(first);
  writeFileSync(first, "another");
  expect(await fleet("audit", "anchors", "--out", evidence)).toMatchObject({ exit: 64 });
  expect(readFileSync(first, "utf8")).toBe("another");
  writeFileSync(first, own);
  const token = names.find((name) => name.endsWith(".tsr"))!;
  const note = token.replace(".tsr", ".txt");
  expect(statSync(join(evidence, token)).mode & 0o777).toBe(0o600);
  // The procedure of SECURITY.md.
  const args = ["ts", "-verify", "-data", note, "-in", token, "-CAfile", authority.caFile];
  expect(execFileSync("openssl", args, { cwd: evidence, stdio: "pipe" }).toString()).toContain("OK");
  const { id } = signingKeyFrom(readFileSync(join(server.home, "signing-key.pem"), "utf8"));
  expect(await fleet("audit", "consistent", join(evidence, note), "--key", id)).toMatchObject({ exit: 0 });

  const json = JSON.parse((await fleet("audit", "anchors", "--target", "timestamp", "--json")).out);
  expect(json).toMatchObject({ anchors: [{ target: "timestamp", object: null }], more: false });
  const [{ size }] = json.anchors;
  expect(
    JSON.parse((await fleet("audit", "anchors", "--before", String(size), "--json")).out).anchors,
  ).toEqual([]);
  expect(await fleet("audit", "anchors", "--target", "moon")).toMatchObject({ exit: 64 });
  expect(await fleet("audit", "anchors", "--out", join(evidence, token, "below"))).toMatchObject({
    exit: 64,
  });
});
