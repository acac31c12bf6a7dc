/** The streams on the server: created, changed where that is safe, refused where not, and their limits. */
import { jetstreamManager } from "@nats-io/jetstream";
import { expect } from "vitest";
import { fleetStreams, type StreamSpec } from "../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { type BusBench, type ContractCases, failureKind, outText, textIn } from "./bench.ts";

const MIB = 1024 * 1024;
const streams = fleetStreams({ storageBytes: 512 * MIB });
const spec = (name: string, changes: Partial<StreamSpec> = {}): StreamSpec => ({
  ...streams[0]!,
  name,
  subjects: [`t.${name}.>`],
  maxBytes: 8 * MIB,
  ...changes,
});

async function configOf(bench: BusBench, name: string) {
  const manager = await jetstreamManager(await bench.stranger());
  return (await manager.streams.info(name)).config;
}

const refusal = ({ bus }: BusBench, one: StreamSpec) =>
  bus.reconcileStreams([one]).then(
    () => "accepted",
    (error: unknown) => error,
  );

const publish = ({ bus }: BusBench, subject: string, body: Uint8Array, messageId: string) =>
  bus.publishDurable(subject, { body }, { messageId, timeoutMs: 60_000, refuseFull: true });

export const streamCases: ContractCases = {
  "the streams of Fleet are created by several at once, and a second run changes nothing": async (bench) => {
    await Promise.all([bench.bus, bench.service].map((bus) => bus.reconcileStreams(streams)));
    const before = await Promise.all(streams.map(({ name }) => configOf(bench, name)));
    expect(before.map(({ name, retention, discard }) => [name, retention, discard])).toEqual(
      streams.map(({ name, retention, discard }) => [name, retention, discard]),
    );
    await bench.bus.reconcileStreams(streams);
    expect(await Promise.all(streams.map(({ name }) => configOf(bench, name)))).toEqual(before);
    expect(await bench.bus.inspectStreams({ repair: false })).toEqual([]);
  },

  "limits grow and subjects are added; another retention, form or overlap is refused": async (bench) => {
    await bench.bus.reconcileStreams([spec("grow")]);
    const more = ["t.grow.>", "t.more.>"];
    await bench.bus.reconcileStreams([spec("grow", { maxBytes: 16 * MIB, subjects: more })]);
    await bench.bus.reconcileStreams([spec("grow", { maxBytes: MIB })]);
    expect(await configOf(bench, "grow")).toMatchObject({ max_bytes: 16 * MIB, subjects: more });
    expect(await refusal(bench, spec("grow", { retention: "workqueue" }))).toMatchObject({
      details: { field: "retention", wanted: "workqueue", found: "limits" },
    });
    const storedAs = { from: "t.grow.*", to: "t.x.{{wildcard(1)}}" };
    expect(await refusal(bench, spec("grow", { storedAs }))).toMatchObject({
      details: { field: "subject_transform" },
    });
    const overlap = await refusal(bench, spec("two", { subjects: ["t.grow.a"] }));
    expect(overlap).toBeInstanceOf(StartupError);
    expect((overlap as StartupError).details.reason).toContain("overlap");
  },

  "a full stream refuses new messages or drops the oldest, as its settings state": async (bench) => {
    const limits = { maxBytes: 10_000, maxMessageBytes: 4_000 };
    await bench.bus.reconcileStreams([
      spec("refuses", { ...limits, discard: "new" }),
      spec("drops", { ...limits, discard: "old" }),
    ]);
    const body = new Uint8Array(3_000);
    for (const n of [1, 2, 3]) {
      await publish(bench, "t.refuses.a", body, `r${n}`);
      await publish(bench, "t.drops.a", body, `d${n}`);
    }
    expect(await failureKind(publish(bench, "t.refuses.a", body, "r4"))).toBe("stream_full");
    await publish(bench, "t.drops.a", body, "d4");
    expect(await failureKind(publish(bench, "t.drops.a", new Uint8Array(5_000), "d5"))).toBe("too_large");
    const seqs = async (name: string) => (await bench.bus.stream(name).list(1, 10)).map(({ seq }) => seq);
    expect([await seqs("refuses"), await seqs("drops")]).toEqual([
      [1, 2, 3],
      [2, 3, 4],
    ]);
    const pending = bench.bus.publishDurable("t.refuses.a", { body }, { messageId: "r5", timeoutMs: 60_000 });
    expect(await bench.bus.stream("refuses").erase("t.refuses.a", async () => true)).toBe("denied");
    const manager = await jetstreamManager(await bench.stranger());
    await manager.streams.update("refuses", { max_bytes: 20_000 });
    expect(await pending).toMatchObject({ seq: 4, duplicate: false });
  },

  "a queued command is stored under its partition, which depends on its task alone": async (bench) => {
    await bench.bus.reconcileStreams(streams);
    const queued = async (agent: string, task: string) => {
      const subject = SUBJECTS.queue("default", agent, task, "create");
      const { seq } = await publish(bench, subject, Buffer.from(task), `${agent} ${task}`);
      return (await bench.bus.stream(STREAMS.queue).get(seq))!.subject;
    };
    // As nats-server computes it.
    expect(await queued("a", "task-1")).toBe("fleet.q.6.default.a.task-1.create");
    expect(await queued("b", "task-1")).toBe("fleet.q.6.default.b.task-1.create");
    expect(await queued("a", "task-2")).toBe("fleet.q.19.default.a.task-2.create");
  },

  "the stream of offers keeps the newest message of each subject, also when it is full": async (bench) => {
    const [offers] = streams.filter(({ name }) => name === STREAMS.offers);
    await bench.bus.reconcileStreams([
      spec("newest", { ...offers, name: "newest", subjects: ["t.newest.>"], maxBytes: 10_000 }),
    ]);
    const body = (n: number) => Buffer.alloc(3_000, String(n));
    for (const [n, task] of ["a", "b", "a", "c", "a"].entries())
      await publish(bench, `t.newest.${task}`, body(n), `newest ${n}`);
    expect(await failureKind(publish(bench, "t.newest.d", body(9), "newest 9"))).toBe("stream_full");
    const stream = bench.bus.stream("newest");
    const newest = async (seq: number) => textIn((await stream.get(seq))!)[0];
    expect(await stream.state()).toMatchObject({ messages: 3, lastSeq: 5 });
    expect([await newest(2), await newest(4), await newest(5)]).toEqual(["1", "3", "4"]);
  },

  "the newest messages of each subject stay within their number": async (bench) => {
    await bench.bus.reconcileStreams([spec("few", { maxPerSubject: 2 })]);
    for (const n of [1, 2, 3, 4]) await publish(bench, "t.few.a", outText(String(n)).body, `few ${n}`);
    expect((await bench.bus.stream("few").read(1, 10)).map(textIn)).toEqual(["3", "4"]);
  },

  "an old message is removed at its age, and an id is forgotten after its window": async (bench) => {
    await bench.bus.reconcileStreams([spec("brief", { maxAgeMs: 1_000, duplicateWindowMs: 500 })]);
    const store = () => publish(bench, "t.brief.a", outText("x").body, "brief");
    expect(await store()).toMatchObject({ seq: 1, duplicate: false });
    await expect.poll(async () => (await store()).duplicate, { timeout: 30_000 }).toBe(false);
    const count = () => bench.bus.stream("brief").count("t.brief.a");
    await expect.poll(count, { timeout: 30_000 }).toBe(0);
  },
};
