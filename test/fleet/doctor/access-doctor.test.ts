// `fleet doctor` about the access log: one that is written, one that is off, and one whose processes have lost entries.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { checksOf, examine } from "./examination.ts";

const TEST_MS = 180_000;
const HOUR_MS = 3_600_000;
const folder = mkdtempSync(join(tmpdir(), "fleet-access-doctor-"));

let fleet: TestFleet;

beforeAll(async () => {
  const policy = join(folder, "policy.json");
  writeFileSync(policy, JSON.stringify({ tenants: { silent: { access_log: "off" } } }));
  // With threads the store is opened as shared, so that the test can open it too.
  fleet = await startFleet({ FLEET_POLICY: policy, FLEET_THREADS: "2" });
}, TEST_MS);
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The log of a tenant as a process leaves it that was killed at a time. */
async function killedAt(tenant: string, ms: number, lost: number): Promise<void> {
  const store = await openStore(`lmdb:${join(fleet.home, "store")}?shared`);
  const parts = { store, format: await openFormat(store), finder: "reader", now: () => ms };
  const { accessLogs } = new CheckpointRepository(parts);
  await accessLogs.append(tenant, { session: "killed", n: 1, state: "open", entries: [], lost });
  await store.close({ drainMs: 1_000 });
}

test("the doctor has a line about the access log of the tenant", { timeout: TEST_MS }, async () => {
  await killedAt("lossy", Date.now() - HOUR_MS, 3);
  // Older than a doctor tells; the verification of the log still names it.
  await killedAt("healed", Date.now() - 30 * 24 * HOUR_MS, 3);
  const found = async (tenant: string) => {
    const env = { FLEET_URL: fleet.url, FLEET_HOME: fleet.home, FLEET_TENANT: tenant };
    const [check, ...others] = checksOf(await examine(env), "access.log");
    expect(others).toEqual([]);
    return check;
  };
  expect(await found("default")).toMatchObject({
    state: "ok",
    found: expect.stringContaining("batched") as string,
  });
  expect(await found("healed")).toMatchObject({ state: "ok" });
  expect(await found("silent")).toMatchObject({
    ...{ state: "warning", found: expect.stringContaining("switched it off") as string },
    fix: expect.stringContaining("FLEET_POLICY") as string,
  });
  expect(await found("lossy")).toMatchObject({
    ...{ state: "warning", fix: expect.stringContaining("audit verify --access") as string },
    found:
      "in 7 days, processes have lost 3 entries, and 1 process ended without a closed session, and may have lost the last entries",
  });
});
