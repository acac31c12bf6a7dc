/** What services publish of a task behind the end of its shredding is erased from the streams of a real server, also by another writer. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startShredding } from "../../../services/writer/sweeps/shredding.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { offerMarks } from "../../../shared/bus/publish/offer-marks.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../harness/clock.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { create, openTestRecords, send } from "../../harness/records/records.ts";

const MIB = 1024 * 1024;
/** In no other text of the test. */
const CANARY = "quetzalcoatlus";
const KEPT = "pteranodon";

let nats: TestNats;
let bus: Bus;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "late", identity: "late", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 256 * MIB }));
});
afterAll(async () => {
  await bus?.close();
  await nats?.stop();
});

let published = 0;
async function publish(subject: string, text: string): Promise<void> {
  published += 1;
  await bus.publishDurable(
    subject,
    { body: Buffer.from(text) },
    { messageId: `late-${published}`, timeoutMs: 30_000 },
  );
}

test("an alert, an offer and a report that were published late go too, and those of other tasks stay", {
  timeout: 120_000,
}, async () => {
  const clock = manualClock(Date.now());
  const records = await openTestRecords("lmdb", () => clock.now());
  const { store, format, repository } = records;
  const mark = offerMarks(format.message_key)("default", "gone");
  const metrics = createMetrics({ ofProcess: false });
  const config = { policies: DEFAULT_POLICIES };
  const start = (instance: string) =>
    startShredding({
      ...{ store, format, clock, log: testLog, metrics, config, backgroundBus: bus },
      leases: createLeaderLeases(store, instance, () => clock.now()),
    });
  const rounds = async (isOver: () => Promise<boolean>): Promise<void> => {
    for (let n = 0; n < 200 && !(await isOver()); n += 1) {
      await clock.sleeping(1);
      await clock.advance(1_000);
    }
  };
  const isOnDisk = (text: string): boolean => filesWith(nats.dir, text).length > 0;
  const stateOf = async () => (await repository.task("default", "gone")).shred?.state;
  let stop = start("writer-1");
  try {
    await create(repository, { task: "gone" });
    const by = (agent: string) => ({ task: "gone", agent });
    const { shred } = await send(repository, "shred_request", { reason: "erasure" }, by("human=olga"));
    await send(repository, "shred_approve", { request_seq: shred?.request_seq }, by("human=pavel"));
    await rounds(async () => (await stateOf()) === "shredded");
    expect(await stateOf()).toBe("shredded");
    await stop();
    await publish(SUBJECTS.alert("default", "critical", "gone"), CANARY);
    await publish(SUBJECTS.offer("default", "qa", "gone"), CANARY);
    await publish(SUBJECTS.offer("default", "qa", "gone", mark), CANARY);
    await publish(SUBJECTS.exit("default", "coder-1", "gone"), CANARY);
    await publish(SUBJECTS.exit("default", "coder-1", "gone-2"), KEPT);
    await expect.poll(() => [isOnDisk(CANARY), isOnDisk(KEPT)], { timeout: 30_000 }).toEqual([true, true]);
    stop = start("writer-2");
    await rounds(async () => !isOnDisk(CANARY));
    expect([isOnDisk(CANARY), isOnDisk(KEPT)]).toEqual([false, true]);
    for (const [stream, filter] of [
      [STREAMS.alerts, SUBJECTS.alertsOf({ tenant: "default", task: "gone" })],
      [STREAMS.offers, SUBJECTS.taskOffers("default", "gone")],
      [STREAMS.offers, SUBJECTS.taskOffers("default", "gone", mark)],
      [STREAMS.exits, SUBJECTS.taskExits("default", "gone")],
    ] as const)
      expect(await bus.stream(stream).count(filter), stream).toBe(0);
    expect(await bus.stream(STREAMS.exits).count(SUBJECTS.everyExit)).toBe(1);
  } finally {
    await stop();
    await records.close();
  }
});
