/** The writer's sweep of shredding: by its clock, in two instances, and the alerts about what keeps a task. */
import { expect, test } from "vitest";
import { startShredding } from "../../../services/writer/sweeps/shredding.ts";
import type { PublishAck, StreamView } from "../../../shared/bus/bus.ts";
import { type ReceivedAlert, readAlert } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../harness/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { create, openTestRecords, send } from "../../harness/records/records.ts";

/** The end of the bus at which alerts are stored. Its streams have no messages of tasks: `shred-messages.test.ts` has those. */
function collectAlerts() {
  const alerts: ReceivedAlert[] = [];
  const stream = () => ({ erase: async () => true }) as unknown as StreamView;
  const publishDurable = async (_subject: string, { body }: { body: Uint8Array }): Promise<PublishAck> => {
    alerts.push(readAlert(JSON.parse(Buffer.from(body).toString())));
    return { stream: "FLEET_ALERTS", seq: alerts.length, duplicate: false };
  };
  return { alerts, backgroundBus: { publishDurable, stream } };
}

test("an approved task is shredded once, and a requested one is not", { timeout: 60_000 }, async () => {
  const clock = manualClock(Date.now());
  const records = await openTestRecords("lmdb", () => clock.now());
  const metrics = createMetrics({ ofProcess: false });
  const { store, format, repository } = records;
  const { backgroundBus, alerts } = collectAlerts();
  const config = { policies: DEFAULT_POLICIES };
  const parts = { store, format, clock, log: testLog, metrics, config, backgroundBus };
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
    expect(alerts).toEqual([]);
  } finally {
    await Promise.all(started.map((stop) => stop()));
    await records.close();
  }
});

test("a hold and damage that came after the approval are one alert each, and gauges as long as they last", {
  timeout: 60_000,
}, async () => {
  const clock = manualClock(Date.now());
  const records = await openTestRecords("memory", () => clock.now());
  const metrics = createMetrics({ ofProcess: false });
  const { store, format, repository } = records;
  const { backgroundBus, alerts } = collectAlerts();
  const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
  const flip = (key: Uint8Array) =>
    store.transact(options, async (tx) => {
      const row = Uint8Array.from((await tx.get(key))!);
      row[row.length - 1]! ^= 1;
      tx.set(key, row);
    });
  for (const task of ["held", "damaged"]) {
    await create(repository, { task });
    const by = (agent: string) => ({ task, agent });
    const { shred } = await send(repository, "shred_request", { reason: "erasure" }, by("human=olga"));
    await send(repository, "shred_approve", { request_seq: shred?.request_seq }, by("human=pavel"));
  }
  await send(repository, "hold", { hold: "case-7" }, { task: "held", agent: "human=olga" });
  const order = tenantKeys("default").order("damaged", 1);
  await flip(order);
  const config = { policies: DEFAULT_POLICIES };
  const leases = createLeaderLeases(store, "writer-1", () => clock.now());
  const stop = startShredding({
    ...{ store, format, clock, log: testLog, metrics, config, backgroundBus, leases },
  });
  const gauges = async () =>
    Promise.all(
      (["shreddingsKept", "shreddingsFailed"] as const).map(
        async (name) => (await metrics[name].get()).values[0]?.value,
      ),
    );
  const rounds = async (isOver: () => Promise<boolean>) => {
    for (let n = 0; n < 50 && !(await isOver()); n += 1) {
      await clock.sleeping(1);
      await clock.advance(1_000);
    }
  };
  const stateOf = async (task: string) => (await repository.task("default", task)).shred?.state;
  try {
    await rounds(async () => alerts.length === 2);
    // Two rounds more.
    for (let n = 0; n < 12; n += 1) {
      await clock.sleeping(1);
      await clock.advance(1_000);
    }
    const shown = alerts.map(({ type, severity, subject, data }) => ({ type, severity, subject, data }));
    const type = "SHREDDING_BLOCKED";
    expect(shown).toEqual([
      { type, severity: "warning", subject: "held", data: { taskId: "held", reason: "held" } },
      { type, severity: "critical", subject: "damaged", data: { taskId: "damaged", reason: "damaged" } },
    ]);
    expect(await gauges()).toEqual([1, 1]);
    await flip(order);
    await send(repository, "hold", { release: "case-7" }, { task: "held", agent: "human=olga" });
    await rounds(async () => (await gauges()).every((value) => value === 0));
    expect(await gauges()).toEqual([0, 0]);
    expect([await stateOf("held"), await stateOf("damaged")]).toEqual(["shredded", "shredded"]);
  } finally {
    await stop();
    await records.close();
  }
});
