/** Buckets: objects that are written once, their removal, and fragments of unfinished ones. */
import { randomBytes } from "node:crypto";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { expect } from "vitest";
import { artifactStream } from "../../../shared/bus/streams/streams.ts";
import { ARTIFACT_BUCKET } from "../../../shared/protocol/object-bucket.ts";
import type { BusBench, ContractCases } from "./bench.ts";

export const prepareObjects = ({ bus }: BusBench): Promise<void> =>
  bus.reconcileStreams([
    artifactStream({ artifactBytes: 64 * 1024 * 1024, storageBytes: 512 * 1024 * 1024 }),
  ]);

const bucketIn = ({ bus }: BusBench) => bus.bucket(ARTIFACT_BUCKET.name);

export const objectCases: ContractCases = {
  "an object has the bytes with which it was stored first, until it is removed": async (bench) => {
    const bucket = bucketIn(bench);
    const bytes = randomBytes(300_000);
    expect([await bucket.get("one"), await bucket.size("one")]).toEqual([null, null]);
    expect(await bucket.put("one", bytes)).toBe(true);
    expect(await bucket.put("one", bytes)).toBe(true);
    expect(await bucket.put("one", randomBytes(10))).toBe(false);
    expect(bytes.equals((await bucket.get("one"))!)).toBe(true);
    expect(await bucket.size("one")).toBe(bytes.length);
    expect(await bucket.put("empty", new Uint8Array())).toBe(true);
    expect((await bucket.get("empty"))!.length).toBe(0);
    expect(await bucket.names()).toEqual(["empty", "one"]);
    await bucket.remove("one");
    await bucket.remove("one");
    expect([await bucket.get("one"), await bucket.names()]).toEqual([null, ["empty"]]);
    expect(await bucket.put("one", randomBytes(10))).toBe(true);
    // An object without bytes would hide a fragment from a later case.
    await bucket.remove("empty");
  },

  "of several writers of one name, one stores its bytes": async (bench) => {
    const writers = await Promise.all([1, 2, 3, 4].map((n) => bench.connect(`writer-${n}`)));
    const stored = await Promise.all(
      writers.map((bus, n) => bus.bucket(ARTIFACT_BUCKET.name).put("raced", Buffer.from(`bytes ${n}`))),
    );
    expect(stored.filter((one) => one)).toHaveLength(1);
    expect(Buffer.from((await bucketIn(bench).get("raced"))!).toString()).toBe(
      `bytes ${stored.indexOf(true)}`,
    );
  },

  "an object that has lost its bytes is stored again, and fragments are removed": async (bench) => {
    const bucket = bucketIn(bench);
    const stranger = await bench.stranger();
    const manager = await jetstreamManager(stranger);
    const contents = async () => {
      const query = { subjects_filter: ARTIFACT_BUCKET.everyContent };
      return Object.keys((await manager.streams.info(ARTIFACT_BUCKET.stream, query)).state.subjects ?? {});
    };
    const before = await contents();
    expect(await bucket.put("lost", Buffer.from("bytes"))).toBe(true);
    const [content] = (await contents()).filter((subject) => !before.includes(subject));
    await manager.streams.purge(ARTIFACT_BUCKET.stream, { filter: content! });
    expect(await bucket.get("lost")).toBeNull();
    expect(await bucket.put("lost", Buffer.from("bytes"))).toBe(true);
    await jetstream(stranger).publish(ARTIFACT_BUCKET.content("unfinished"), "a fragment");
    expect(await bucket.removeFragments(Date.now() - 60_000)).toBe(0);
    expect(await bucket.removeFragments(Date.now() + 60_000)).toBe(1);
    expect(Buffer.from((await bucket.get("lost"))!).toString()).toBe("bytes");
  },
};
