/** While a strict access log cannot be written, alerts leave without their texts, and other answers with a text do not leave. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { alertsOf, blockTask, CALL, TEXT } from "./blocked-task.ts";

const CALLS_MS = 240_000;
const WITHHELD = "withheld, because the access log cannot be written";

let fleet: TestFleet;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-unwritable-"));
  const policy = join(folder, "policy.json");
  writeFileSync(policy, JSON.stringify({ access_log: "strict" }));
  // A fleet with one thread does not share its store.
  fleet = await startFleet({ FLEET_POLICY: policy, FLEET_THREADS: "1" });
}, CALLS_MS);
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The next block would hide the damage, so none is written. */
async function damageLog(): Promise<void> {
  await fleet.terminate();
  const store = await openStore(`lmdb:${join(fleet.home, "store")}`);
  const options = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
  await store.transact(options, async (tx) => tx.clear(tenantKeys("default").accessChain()));
  await store.close({ drainMs: 1_000 });
  await fleet.start();
}

test("alerts say what to do, without the words of people and agents", { timeout: CALLS_MS }, async () => {
  const agent = await fleet.client("coder-1");
  const operator = await fleet.client("operator-1");
  const { admin } = operator;
  const alert = await blockTask(agent, operator);
  expect(await admin.alert(alert.id, CALL)).toMatchObject({
    alert: { data: { details: TEXT } },
    acknowledgement: { note: TEXT },
  });
  await damageLog();

  const withheld = {
    alert: { id: alert.id, type: "RECOVERY_BLOCKED", data: { ...(alert.data as object), details: WITHHELD } },
    acknowledgement: { by: "operator-1", note: WITHHELD },
  };
  expect(await admin.alert(alert.id, CALL)).toMatchObject(withheld);
  expect(await alertsOf(operator)).toMatchObject([withheld]);
  const env = { FLEET_URL: fleet.url, FLEET_HOME: fleet.home, FLEET_SPOOL_DIR: join(fleet.home, "spool") };
  // The log that cannot be written delays each answer.
  const shown = await callCli(["alerts", "show", alert.id, "--timeout", "60s"], { env });
  expect(shown).toMatchObject({ exit: 0 });
  expect(shown.out).toContain(WITHHELD);
  expect(shown.out).not.toContain(TEXT);
  // Only for a moment, as a caller that asks again and again. The refusal may come too late for it.
  await expect(agent.getTask("blocked", { ...CALL, deadlineMs: 3_000 })).rejects.toMatchObject({
    code: expect.stringMatching(/^(UNAVAILABLE|TIMEOUT)$/) as string,
  });
});
