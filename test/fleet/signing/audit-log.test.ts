// `fleet audit log`, `prove`, `check` and `consistent` on a running fleet, and over HTTP.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;

let server: TestFleet;
let client: FleetClient;
let folder: string;

beforeAll(async () => {
  server = await startFleet({ FLEET_SCRUB_EVERY: "off", FLEET_GATEWAY_PORT: "-1" });
  client = await server.client();
  folder = mkdtempSync(join(tmpdir(), "fleet-receipts-"));
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const fleet = (...args: string[]) =>
  callCli(args, {
    env: { FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_SPOOL_DIR: join(server.home, "spool") },
  });

const written = () => client.createCheckpoint({ taskId: "auth", checkpoint: input() });

/** Until the newest entry of the task is in the log. */
const logged = (seq: number) =>
  expect
    .poll(() => client.admin.auditProof({ taskId: "auth", seq }).catch(() => null), { timeout: 60_000 })
    .not.toBeNull();

test("a third party verifies a receipt without the fleet, and later the log", {
  timeout: CALLS_MS,
}, async () => {
  const [receipt, checkpoint] = [join(folder, "receipt.json"), join(folder, "checkpoint.txt")];
  const { id } = signingKeyFrom(readFileSync(join(server.home, "signing-key.pem"), "utf8"));
  await written();
  await logged(1);
  expect(await fleet("audit", "prove", "auth", "1", "--out", receipt)).toMatchObject({
    exit: 0,
    out: expect.stringContaining("The receipt is valid if its key is the fleet's."),
  });
  expect(await fleet("audit", "log", "--out", checkpoint)).toMatchObject({
    exit: 0,
    out: expect.stringContaining("fleet/audit/default"),
  });
  const nowhere = { env: { FLEET_URL: "nats://127.0.0.1:1", FLEET_HOME: folder } };
  const checked = await callCli(["audit", "check", receipt, "--key", id, "--json"], nowhere);
  expect(checked).toMatchObject({ exit: 0 });
  expect(JSON.parse(checked.out)).toMatchObject({ ok: true, task_id: "auth", seq: 1, key_id: id });

  const unnamed = await callCli(["audit", "check", receipt, "--json"], nowhere);
  expect(JSON.parse(unnamed.out)).toMatchObject({ ok: null, problem: null, key_id: id });

  const other = join(folder, "other.json");
  writeFileSync(
    other,
    readFileSync(receipt, "utf8")
      .replace("agent_type", "agent_typf")
      .replace(/"index": \d+/, '"index": 0'),
  );
  expect(await callCli(["audit", "check", other], nowhere)).toMatchObject({
    exit: 8,
    out: expect.stringContaining("NOT valid"),
  });
  expect(await callCli(["audit", "check", receipt, "--key", "0".repeat(64)], nowhere)).toMatchObject({
    exit: 8,
  });
  expect(await callCli(["audit", "check", receipt, "--key", "x"], nowhere)).toMatchObject({ exit: 64 });

  await written();
  await logged(2);
  expect(await fleet("audit", "consistent", checkpoint, "--key", id)).toMatchObject({
    exit: 0,
    out: expect.stringContaining("The log continues the checkpoint."),
  });
  // As if the fleet had been set back.
  writeFileSync(other, readFileSync(checkpoint, "utf8").replace(/\n\d+\n/, "\n1\n"));
  expect(await fleet("audit", "consistent", other)).toMatchObject({ exit: 8 });
  expect(await fleet("audit", "consistent", join(folder, "none"))).toMatchObject({ exit: 64 });
  expect(await fleet("audit", "prove", "nothing")).toMatchObject({ exit: 4 });
  for (const wrong of [[], ["--tenant-chain", "x"], ["--tenant-chain", "1", "2"]])
    expect(await fleet("audit", "prove", ...wrong)).toMatchObject({ exit: 64 });
  const act = await fleet("audit", "prove", "--tenant-chain", "1", "--out", receipt);
  expect(act).toMatchObject({ exit: 0, out: expect.stringContaining("Entry 1 of the tenant's chain") });
  expect(await callCli(["audit", "check", receipt, "--key", id], nowhere)).toMatchObject({ exit: 0 });
  const { size, delay_ms } = await client.admin.auditLog();
  expect(size).toBeGreaterThanOrEqual(3);
  expect(delay_ms).toBeLessThan(60_000);
});
