// The failures of silent owners are recorded, and a damaged task delays no other.

import { afterEach, beforeEach, expect, test } from "vitest";
import { createDamageReporter } from "../../../../services/watchdog/detection/damaged-head.ts";
import { startFailureDetector } from "../../../../services/watchdog/detection/failure-detector.ts";
import {
  type MonitoredOwner,
  MonitoredOwners,
} from "../../../../services/watchdog/detection/monitored-owners.ts";
import { createFailureRecorder } from "../../../../services/watchdog/detection/record-failure.ts";
import { createAdmission } from "../../../../services/watchdog/recovery/admission.ts";
import { takeRecoverySteps } from "../../../../services/watchdog/recovery/recovery-controller.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { RecoveryPlace } from "../../../../shared/records/recovery/due.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { knownAgentTypes } from "../../../../shared/service-host/policy-file.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

let place: TestTasks;
beforeEach(async () => {
  place = await TestTasks.open("memory");
});
afterEach(() => place.close());

const silentOwner = (task: string): MonitoredOwner => ({
  tenant: "default",
  task,
  fence: 1,
  agentId: "agent-1",
  agentType: "qa",
  silenceMs: 1_000,
  heardAt: -60_000,
  lastSignAt: 0,
  isOverdue: false,
  leaseUntil: 0,
  checkedAt: 0,
  notBefore: 0,
});

async function damageHead(task: string): Promise<void> {
  const key = tenantKeys("default").task(task);
  await place.store.transact({ label: "damage", deadlineMs: 1_000, onUnknown: "safe" }, async (tx) => {
    const value = Uint8Array.from((await tx.get(key)) ?? []);
    value[value.length - 20]! ^= 1;
    tx.set(key, value);
  });
}

test("a task with a damaged head is postponed and becomes a finding, and other failures are recorded at once", async () => {
  const [damaged, sound] = [await place.owned(), await place.owned()];
  await damageHead(damaged);
  // The agents have written nothing for a long time.
  place.now += 60_000;
  const owners = new MonitoredOwners();
  const poison = silentOwner(damaged);
  owners.add(poison);
  const { repository } = place;
  const context = { log: testLog, clock: systemClock, metrics: createMetrics({ ofProcess: false }) };
  const admission = createAdmission(repository, systemClock, 256);
  const controller = {
    wake: (due: RecoveryPlace) => takeRecoverySteps(systemClock, repository, admission, due),
  };
  const recordFailure = createFailureRecorder(context, repository, {
    controller,
    reportDamage: createDamageReporter(context, repository),
    agentTypes: knownAgentTypes([]),
  });
  const observedClock = {
    now: () => systemClock.monotonic(),
    since: 0,
    isUpToDate: async () => true,
    stop: async () => {},
  };
  const stop = startFailureDetector({ ...context, observedClock, owners, recordFailure }, place.repository);
  try {
    await expect.poll(() => poison.notBefore).toBeGreaterThan(systemClock.monotonic() + 10_000);
    owners.add(silentOwner(sound));
    await expect.poll(() => owners.size).toBe(1);
    expect(await place.recovery(sound)).toMatchObject({ failure: { signal: "lease_lapsed" } });
    const { findings } = await repository.scrubFindings("default", { limit: 10 });
    expect(findings).toMatchObject([{ task_id: damaged, kind: "head", details: "the head cannot be read" }]);
  } finally {
    await stop();
  }
});
