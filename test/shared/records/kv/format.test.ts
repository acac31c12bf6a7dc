/** The format record: written once, completed for a store of an earlier version, never changed for a newer one. */
import { expect, test } from "vitest";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { type Format, openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openMemory } from "../../../../shared/store/drivers/memory.ts";

const key = systemKeys.meta("format");
const write = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

test("all services that open a store at once get the same message key, and every later one too", async () => {
  const store = await openMemory();
  const formats = await Promise.all(Array.from({ length: 5 }, () => openFormat(store)));
  expect(new Set(formats.map((format) => format.message_key)).size).toBe(1);
  expect(formats[0]).toMatchObject({
    layout: 1,
    incarnation: 1,
    message_key: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  expect(await openFormat(store)).toEqual(formats[0]);
  await store.close({ drainMs: 0 });
});

test("a store of an earlier version gets a key and keeps its incarnation", async () => {
  const store = await openMemory();
  await store.transact(write, async (tx) => tx.set(key, encode({ layout: 1, incarnation: 7 })));
  const format = await openFormat(store);
  expect(format).toMatchObject({ layout: 1, incarnation: 7 });
  expect(format.message_key).toMatch(/^[0-9a-f]{64}$/);
  expect(await openFormat(store)).toEqual(format);
  await store.close({ drainMs: 0 });
});

test("a store of a newer version is refused and unchanged", async () => {
  const store = await openMemory();
  const newer = { layout: 2, needs: "9.1.0", incarnation: 1 };
  await store.transact(write, async (tx) => tx.set(key, encode(newer)));
  await expect(openFormat(store)).rejects.toMatchObject({
    code: "UNSUPPORTED_VERSION",
    fields: [{ path: "format.layout", expected: "at most 1", got: "2" }],
    details: { needs: "9.1.0" },
  });
  const stored = await store.read({ label: "test", deadlineMs: 5_000 }, (reader) => reader.get(key));
  expect(decode<Format>(stored!)).toEqual(newer);
  await store.close({ drainMs: 0 });
});
