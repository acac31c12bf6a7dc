/** Messages under a subject are erased from a stream: from its answers and from the files of the server. */
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const MIB = 1024 * 1024;
/** In no other text of the test. */
const CANARY = "quetzalcoatlus";
const KEPT = "pteranodon";

let nats: TestNats;
let bus: Bus;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "erase", identity: "erase", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 256 * MIB }));
});
afterAll(async () => {
  await bus?.close();
  await nats?.stop();
});

const held = async (): Promise<boolean> => true;
let published = 0;
async function report(task: string, text: string, agent = "coder-1"): Promise<void> {
  published += 1;
  const options = { messageId: `report-${published}`, timeoutMs: 20_000 };
  await bus.publishDurable(SUBJECTS.exit("default", agent, task), { body: Buffer.from(text) }, options);
}

/** Whether a file of the server has the text. */
const isOnDisk = (text: string): boolean => filesWith(nats.dir, text).length > 0;

test("all messages of a task go with their bytes, and those of others stay", async () => {
  for (const [task, text] of [
    ["gone", CANARY],
    ["gone-2", KEPT],
    ["gone", CANARY],
  ] as const)
    await report(task, text);
  await report("gone", CANARY, "coder-2");
  await expect.poll(() => isOnDisk(CANARY), { timeout: 30_000 }).toBe(true);
  const exits = bus.stream(STREAMS.exits);
  expect(await exits.erase(SUBJECTS.taskExits("default", "gone"), held)).toBe("all");
  const left = await exits.read(1, 10);
  expect(left.map(({ subject }) => subject)).toEqual([SUBJECTS.exit("default", "coder-1", "gone-2")]);
  expect([isOnDisk(CANARY), isOnDisk(KEPT)]).toEqual([false, true]);
  // Again, and for a subject without messages.
  expect(await exits.erase(SUBJECTS.taskExits("default", "gone"), held)).toBe("all");
  expect(await exits.count(SUBJECTS.everyExit)).toBe(1);
});

test("two at once both succeed", async () => {
  for (let n = 0; n < 20; n += 1) await report("twice", CANARY);
  const exits = bus.stream(STREAMS.exits);
  const filter = SUBJECTS.taskExits("default", "twice");
  expect(await Promise.all([exits.erase(filter, held), exits.erase(filter, held)])).toEqual(["all", "all"]);
  expect(await exits.count(filter)).toBe(0);
});

test("messages that are stored meanwhile do not prolong it", async () => {
  for (let n = 0; n < 3; n += 1) await report("busy", CANARY);
  const exits = bus.stream(STREAMS.exits);
  const filter = SUBJECTS.taskExits("default", "busy");
  const meanwhile = () => report("busy", KEPT).then(() => true);
  expect(await exits.erase(filter, meanwhile)).toBe("all");
  expect(await exits.count(filter)).toBe(3);
  expect(isOnDisk(CANARY)).toBe(false);
  expect(await exits.erase(filter, async () => false)).toBe("some");
  expect(await exits.count(filter)).toBe(3);
});

test("a stream that an earlier version made forbids it, and that is no finding that never ends", async () => {
  const admin = await connect({ servers: nats.url });
  const manager = await jetstreamManager(admin);
  const { config } = await manager.streams.info(STREAMS.alerts);
  await manager.streams.update(STREAMS.alerts, { ...config, deny_delete: true });
  const out = { body: Buffer.from("{}") };
  await bus.publishDurable(SUBJECTS.alert("default", "critical", "kept"), out, {
    ...{ messageId: "alert-1", timeoutMs: 20_000 },
  });
  const filter = SUBJECTS.alertsOf({ tenant: "default", task: "kept" });
  expect(await bus.stream(STREAMS.alerts).erase(filter, held)).toBe("denied");
  expect(await bus.stream(STREAMS.alerts).count(filter)).toBe(1);
  expect(await bus.inspectStreams({ repair: true })).toEqual([]);
  await admin.close();
});
