/** The writer's sweep of shredding: by its clock, in two instances. */
import { expect, test } from "vitest";
import { startShredding } from "../../../services/writer/sweeps/shredding.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../harness/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { create, openTestRecords, send } from "../../harness/records/records.ts";

test("an approved task is shredded once, and a requested one is not", { timeout: 60_000 }, async () => {
  const clock = manualClock(Date.now());
  const records = await openTestRecords("lmdb", () => clock.now());
  const metrics = createMetrics({ ofProcess: false });
  const { store, format, repository } = records;
  const parts = { store, format, clock, log: testLog, metrics, config: { policies: DEFAULT_POLICIES } };
  const started = ["writer-1", "writer-2"].map((instance) =>
    startShredding({ ...parts, leases: createLeaderLeases(store, instance, () => clock.now()) }),
  );
  try {
    for (const task of ["a", "b"]) {
      await create(repository, { task });
      await create(repository, { task });
      const { shred } = await send(
        repository,
        "shred_request",
        { reason: "erasure" },
        { task, agent: "human=olga" },
      );
      const body = { request_seq: shred?.request_seq };
      if (task === "a") await send(repository, "shred_approve", body, { task, agent: "human=pavel" });
    }
    for (let n = 0; n < 50 && (await repository.task("default", "a")).shred?.state !== "shredded"; n += 1) {
      await clock.sleeping(started.length);
      await clock.advance(1_000);
    }
    expect((await repository.task("default", "a")).shred).toMatchObject({ state: "shredded" });
    expect((await repository.task("default", "b")).shred).toMatchObject({ state: "requested" });
    const count = async (of: "shreddedCheckpointsTotal" | "shreddedTasksTotal") =>
      (await metrics[of].get()).values[0]?.value ?? 0;
    expect([await count("shreddedCheckpointsTotal"), await count("shreddedTasksTotal")]).toEqual([2, 1]);
  } finally {
    await Promise.all(started.map((stop) => stop()));
    await records.close();
  }
});
