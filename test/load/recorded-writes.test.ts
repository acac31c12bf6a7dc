import { expect, test } from "vitest";
import { CheckpointRepository } from "../../shared/records/repository.ts";
import type { KeyValue } from "../../shared/store/store.ts";
import { create, openTestRecords } from "../harness/records/records.ts";
import { recording } from "./recorded-writes.ts";

// Below and above every key of the layout; what lies outside is the store's own.
const EVERYTHING = { begin: Buffer.from([0x02]), end: Buffer.from([0x03]) };

test("the recording has every key that a create leaves in the store, with the size of its value", async () => {
  const bench = await openTestRecords("memory");
  const { store, take } = recording(bench.store);
  const repository = new CheckpointRepository({ ...bench, store, now: Date.now, finder: "test" });
  const rows = async (): Promise<KeyValue[]> =>
    bench.store.read(
      { label: "all", deadlineMs: 1_000 },
      async (reader) => (await reader.getRange(EVERYTHING, { limit: 1_000 })).rows,
    );
  const before = new Set((await rows()).map(({ key }) => Buffer.from(key).toString("hex")));
  await create(repository);
  const stored = (await rows()).filter(({ key }) => !before.has(Buffer.from(key).toString("hex")));
  const [writes, ...others] = take();
  await bench.close();

  expect(others).toEqual([]);
  const shape = (all: readonly { key: Uint8Array; value: Uint8Array | null }[]) =>
    all.map(({ key, value }) => `${key.length}/${value?.length}`).sort();
  expect(shape(writes!)).toEqual(shape(stored));
  expect(take()).toEqual([]);
});
