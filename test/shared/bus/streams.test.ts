import { DiscardPolicy, jetstreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { isVersionAtLeast } from "../../../shared/bus/server-check.ts";
import { fleetStreams, SETTINGS_VERSION, type StreamSpec } from "../../../shared/bus/streams/streams.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

let nats: TestNats;
let bus: Bus;
let admin: Awaited<ReturnType<typeof connect>>;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "setup", identity: "setup", log: testLog });
  admin = await connect({ servers: nats.url });
});

afterAll(async () => {
  await admin?.close();
  await bus?.close();
  await nats?.stop();
});

const MIB = 1024 * 1024;
const spec = (name: string, changes: Partial<StreamSpec> = {}): StreamSpec => ({
  ...fleetStreams({ storageBytes: 256 * MIB })[0]!,
  name,
  subjects: [`t.${name}.>`],
  maxBytes: 8 * MIB,
  ...changes,
});
const config = async (name: string) => (await (await jetstreamManager(admin)).streams.info(name)).config;
const refusal = (promise: Promise<unknown>) => promise.catch((error: unknown) => error);

test("the streams of Fleet are created with every setting, and a second run changes nothing", async () => {
  const streams = fleetStreams({ storageBytes: 256 * MIB });
  await Promise.all([bus.reconcileStreams(streams), bus.reconcileStreams(streams)]);
  const events = await config("FLEET_EVENTS");
  expect(events).toMatchObject({
    subjects: ["fleet.event.>"],
    retention: "limits",
    discard: "old",
    storage: "file",
    max_age: 7 * 86_400e9,
    max_bytes: Math.floor(256 * MIB * 0.26),
    max_msg_size: 262_144,
    duplicate_window: 300e9,
    allow_direct: true,
  });
  expect(events.allow_atomic ?? false).toBe(isVersionAtLeast(bus.serverVersion, "2.12.1"));
  expect(await config("FLEET_QUEUE")).toMatchObject({
    subjects: ["fleet.queue.*.*.*.*"],
    subject_transform: {
      src: "fleet.queue.*.*.*.*",
      dest: "fleet.q.{{partition(32,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}.{{wildcard(4)}}",
    },
    retention: "workqueue",
    discard: "new",
    storage: "file",
    max_age: 0,
    max_bytes: Math.floor(256 * MIB * 0.33),
    max_msg_size: 1_967_232,
  });
  expect(await config("FLEET_OFFERS")).toMatchObject({
    subjects: ["fleet.offer.*.*.*"],
    retention: "workqueue",
    discard: "new",
    max_age: 86_400e9,
  });
  expect(await config("FLEET_EXITS")).toMatchObject({ subjects: ["fleet.exit.*.*.*"], retention: "limits" });
  expect(await config("FLEET_DEAD")).toMatchObject({
    subjects: ["fleet.dead.>"],
    retention: "limits",
    discard: "new",
    max_age: 0,
  });
  await bus.reconcileStreams(streams);
  expect(await config("FLEET_EVENTS")).toEqual(events);
});

test("the size of the disk limits the streams, and a large disk does not enlarge them", () => {
  const sum = (storageBytes: number) =>
    fleetStreams({ storageBytes }).reduce((all, { maxBytes }) => all + maxBytes, 0);
  expect(sum(100 * MIB)).toBeLessThanOrEqual(80 * MIB);
  expect(fleetStreams().map(({ maxBytes }) => maxBytes / MIB)).toEqual([4096, 256, 8192, 1024, 256, 64]);
});

test("a fleet with larger streams keeps them, and new streams still have room", async () => {
  const own = await startNats();
  const setup = await connectBus({ url: own.url, name: "setup", identity: "setup", log: testLog });
  const storageBytes = 200 * MIB;
  const before: Record<string, number> = { FLEET_EVENTS: 0.3, FLEET_QUEUE: 0.35 };
  const now = fleetStreams({ storageBytes });
  const old = now
    .filter(({ name }) => !["FLEET_OFFERS", "FLEET_EXITS"].includes(name))
    .map((stream) => ({ ...stream, maxBytes: storageBytes * (before[stream.name] ?? 0.05) }));
  await setup.reconcileStreams(old);
  await setup.reconcileStreams(now);
  expect((await setup.stream("FLEET_EVENTS").state()).bytesMax).toBe(storageBytes * 0.3);
  expect((await setup.stream("FLEET_OFFERS").state()).bytesMax).toBe(Math.floor(storageBytes * 0.04));
  await setup.close();
  await own.stop();
});

test("limits grow and never shrink, subjects are added and never removed", async () => {
  await bus.reconcileStreams([spec("grow")]);
  await bus.reconcileStreams([
    spec("grow", { maxBytes: 16 * MIB, subjects: ["t.grow.>", "t.more.>"], discard: "new" }),
  ]);
  const grown = { max_bytes: 16 * MIB, subjects: ["t.grow.>", "t.more.>"], discard: DiscardPolicy.New };
  expect(await config("grow")).toMatchObject(grown);
  await bus.reconcileStreams([spec("grow", { maxBytes: MIB, maxAgeMs: 1_000, discard: "new" })]);
  expect(await config("grow")).toMatchObject({ ...grown, max_age: 7 * 86_400e9 });
});

test("two versions of Fleet do not change a stream in turns: an older one leaves what a newer one has set", async () => {
  const older = spec("shared", { settings: 1 });
  const newer = spec("shared", { settings: 2, discard: "new", maxPerSubject: 9, duplicateWindowMs: 1_000 });
  const other = await connectBus({ url: nats.url, name: "newer", identity: "newer", log: testLog });
  await bus.reconcileStreams([older]);
  expect((await config("shared")).metadata).toMatchObject({ "fleet.settings": "1" });
  await other.reconcileStreams([newer]);
  const upgraded = await config("shared");
  expect(upgraded).toMatchObject({
    discard: "new",
    max_msgs_per_subject: 9,
    metadata: { "fleet.settings": "2" },
  });
  const of = (findings: readonly { readonly stream: string }[]) =>
    findings.filter(({ stream }) => stream === "shared");
  for (let pass = 0; pass < 3; pass += 1) {
    expect(of(await bus.inspectStreams({ repair: true }))).toEqual([]);
    expect(of(await other.inspectStreams({ repair: true }))).toEqual([]);
    await bus.reconcileStreams([older]);
    expect(await config("shared")).toEqual(upgraded);
  }
  await other.close();
});

test("a newer setting with which an older version cannot work is refused with the version, and stays", async () => {
  const subjects = ["t.ahead.>"];
  await bus.reconcileStreams([
    spec("ahead", { settings: SETTINGS_VERSION + 1, retention: "workqueue", subjects }),
  ]);
  const before = await config("ahead");
  expect(await refusal(bus.reconcileStreams([spec("ahead", { subjects })]))).toMatchObject({
    exitCode: 10,
    details: { code: "UNSUPPORTED_VERSION", field: "retention" },
    hint: expect.stringContaining("newer"),
  });
  expect(await config("ahead")).toEqual(before);
});

test("settings of other origin on a stream are kept", async () => {
  const manager = await jetstreamManager(admin);
  await manager.streams.add({ name: "kept", subjects: ["t.kept.>"], max_bytes: MIB, description: "theirs" });
  await bus.reconcileStreams([spec("kept")]);
  expect(await config("kept")).toMatchObject({ description: "theirs", max_bytes: 8 * MIB });
});

test("another retention or storage is refused, with the field and both values", async () => {
  const manager = await jetstreamManager(admin);
  await manager.streams.add({
    name: "work",
    subjects: ["t.work.>"],
    retention: RetentionPolicy.Workqueue,
    max_bytes: MIB,
  });
  await manager.streams.add({
    name: "mem",
    subjects: ["t.mem.>"],
    storage: StorageType.Memory,
    max_bytes: MIB,
  });
  const retention = await refusal(bus.reconcileStreams([spec("work")]));
  expect(retention).toBeInstanceOf(StartupError);
  expect(retention).toMatchObject({
    exitCode: 69,
    details: { stream: "work", field: "retention", wanted: "limits", found: "workqueue" },
  });
  expect(await refusal(bus.reconcileStreams([spec("mem")]))).toMatchObject({
    details: { field: "storage", wanted: "file", found: "memory" },
  });
});

test.each([
  ["without a transform, as on an old server", undefined],
  ["with another transform", { src: "t.form.*.*", dest: "t.x.{{partition(8,1)}}.{{wildcard(2)}}" }],
])("another form of stored subjects, %s, is refused", async (_, found) => {
  const manager = await jetstreamManager(admin);
  await manager.streams.add({
    name: "form",
    subjects: ["t.form.>"],
    max_bytes: MIB,
    ...(found && { subject_transform: found }),
  });
  const storedAs = { from: "t.form.*.*", to: "t.x.{{partition(32,1)}}.{{wildcard(2)}}" };
  const error = await refusal(bus.reconcileStreams([spec("form", { subjects: ["t.form.>"], storedAs })]));
  expect(error).toBeInstanceOf(StartupError);
  expect(error).toMatchObject({
    exitCode: 69,
    details: {
      field: "subject_transform",
      wanted: { src: storedAs.from, dest: storedAs.to },
      found: found ?? "nothing",
    },
  });
  await manager.streams.delete("form");
});

test("a refusal by the server stops with its reason: no room, or subjects of another stream", async () => {
  const huge = await refusal(bus.reconcileStreams([spec("huge", { maxBytes: 1e15 })]));
  expect(huge).toBeInstanceOf(StartupError);
  expect((huge as StartupError).hint).toContain("disk");
  await bus.reconcileStreams([spec("one")]);
  const overlap = await refusal(bus.reconcileStreams([spec("two", { subjects: ["t.one.>"] })]));
  expect(overlap).toBeInstanceOf(StartupError);
  expect((overlap as StartupError).details.reason).toContain("overlap");
});
