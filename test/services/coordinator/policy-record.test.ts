/** A coordinator records in the audit chain that it applies other policies than the one before it, also after an outage. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { startPolicyRecord } from "../../../services/coordinator/policy-record.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { manualClock } from "../../harness/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { openTestRecords, type TestRecords } from "../../harness/records/records.ts";
import { type Outage, outageStore } from "../../harness/stores/outage-store.ts";

const POLICIES = { ...DEFAULT_POLICIES, defaults: { first_checkpoint_ms: 60_000 } };
/** The longest pause between two attempts. */
const PAUSE_MS = 30_000;

let bench: TestRecords;
let outage: Outage;
let repository: CheckpointRepository;

beforeEach(async () => {
  bench = await openTestRecords("memory");
  outage = "none";
  const store = outageStore(bench.store, () => outage);
  const policies = POLICIES;
  repository = new CheckpointRepository({
    store,
    format: bench.format,
    finder: "test",
    now: Date.now,
    policies,
  });
});
afterEach(() => bench.close());

const actions = async () =>
  (await bench.repository.tenantActs.page("default", { from_seq: 1, limit: 100 })).entries.map(
    ({ entry }) => (JSON.parse(entry) as { action: string }).action,
  );

test("a change is recorded when the store answers again, and once for all coordinators", async () => {
  outage = "refuses";
  const clock = manualClock();
  const context = { clock, log: testLog };
  const stops = [1, 2].map(() => startPolicyRecord(context, repository, POLICIES));
  await clock.sleeping(2);
  outage = "none";
  await clock.advance(PAUSE_MS);
  await expect.poll(actions).toEqual(["policy_change"]);
  for (const stop of stops) await stop();
  await startPolicyRecord(context, repository, POLICIES)();
  expect(await actions()).toEqual(["policy_change"]);
});

test("a stop ends the attempts", async () => {
  outage = "refuses";
  const clock = manualClock();
  const stop = startPolicyRecord({ clock, log: testLog }, repository, POLICIES);
  await clock.sleeping();
  await stop();
  expect(clock.sleepers).toBe(0);
});
