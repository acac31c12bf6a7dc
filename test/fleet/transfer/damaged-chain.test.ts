/** A damaged audit chain of the tenant takes no entry, and an export saves what can be read. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { commandsOf, json } from "./commands.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
}, 120_000);
afterAll(() => fleet?.stop());

test("an export that the chain cannot record reports it, and is whole", { timeout: 200_000 }, async () => {
  const client = await fleet.client("agent-1");
  await client.createCheckpoint({ taskId: "kept", checkpoint: input() });
  const store = await openStore(`lmdb:${join(fleet.home, "store")}?shared`);
  await store.transact({ label: "damage", deadlineMs: 10_000, onUnknown: "safe" }, async (tx) => {
    tx.set(tenantKeys("default").tenantChain(), Buffer.from("damaged"));
  });
  await store.close({ drainMs: 5_000 });
  const run = commandsOf(() => fleet);
  const file = join(fleet.home, "kept.jsonl");
  const { exit, out, err } = await run("export", "--task", "kept", "--out", file, "--json");
  expect({ exit, err }).toMatchObject({ exit: 0 });
  expect(err).toContain("EXPORT_UNRECORDED");
  expect(JSON.parse(out)).toMatchObject({ complete: true });
  expect(await json(run("export", "verify", file, "--json"))).toMatchObject({ exit: 0, complete: true });
});
