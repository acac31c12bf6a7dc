import { expect, test } from "vitest";
import { CheckpointRepository } from "../../shared/records/repository.ts";
import type { KeyValue } from "../../shared/store/store.ts";
import { create, openTestRecords } from "../harness/records/records.ts";
import { recordingStore } from "./recorded-writes.ts";

// The range of all keys of the layout. Keys outside it belong to the store.
const EVERYTHING = { begin: Buffer.from([0x02]), end: Buffer.from([0x03]) };

test("records every key that a create writes, with the size of its value", async () => {
  const records = await openTestRecords("memory");
  const { store, take } = recordingStore(records.store);
  const repository = new CheckpointRepository({ ...records, store, now: Date.now, finder: "test" });
  const rows = async (): Promise<KeyValue[]> =>
    records.store.read(
      { label: "all", deadlineMs: 1_000 },
      async (reader) => (await reader.getRange(EVERYTHING, { limit: 1_000 })).rows,
    );
  const before = new Set((await rows()).map(({ key }) => Buffer.from(key).toString("hex")));
  await create(repository);
  const stored = (await rows()).filter(({ key }) => !before.has(Buffer.from(key).toString("hex")));
  const [writes, ...others] = take();
  await records.close();

  expect(others).toEqual([]);
  const shape = (all: readonly { key: Uint8Array; value: Uint8Array | null }[]) =>
    all.map(({ key, value }) => `${key.length}/${value?.length}`).sort();
  expect(shape(writes!)).toEqual(shape(stored));
  expect(take()).toEqual([]);
});
