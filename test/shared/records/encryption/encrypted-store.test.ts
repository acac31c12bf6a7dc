import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  KeyEncryptionError,
  type KeyEncryptionKey,
} from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { destroyDataKeys, encryptedStore } from "../../../../shared/records/encryption/encrypted-store.ts";
import { fleetLayout, type Layout } from "../../../../shared/records/encryption/layout.ts";
import { openEncryption, requirePlainStore } from "../../../../shared/records/encryption/open-encryption.ts";
import {
  decodeChecked,
  encodeChecked,
  isDamage,
  UnreadableValue,
} from "../../../../shared/records/kv/codec.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Bytes, Store, Tx } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { create, send } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const root = rootKey();
let engine: Store;
let store: Store;

beforeEach(async () => {
  engine = await openStore("memory:");
  ({ store } = await openEncryption(engine, [root]));
});
afterEach(() => engine.close({ drainMs: 1_000 }));

const ID = "01890000-0000-7000-8000-000000000001";
const keys = tenantKeys("default");
const write = (to: Store, body: (tx: Tx) => Promise<void> | void) =>
  to.transact({ label: "test", deadlineMs: 20_000, onUnknown: "safe" }, async (tx) => body(tx));
const look = (from: Store, key: Bytes) =>
  from.read({ label: "test", deadlineMs: 20_000 }, (reader) => reader.get(key));
/** The record at a key, `damaged` if it cannot be read. */
const record = async (from: Store, key: Bytes): Promise<unknown> => {
  const value = await look(from, key);
  if (value === undefined) return undefined;
  try {
    return decodeChecked(value);
  } catch (error) {
    if (isDamage(error)) return "damaged";
    throw error;
  }
};
const put = (to: Store, key: Bytes, value: unknown) => write(to, (tx) => tx.set(key, encodeChecked(value)));
const copyRow = async (from: Bytes, to: Bytes) => {
  const value = (await look(engine, from))!;
  await write(engine, (tx) => tx.set(to, value));
};

test("rows are read as they were written, and are not in the engine", async () => {
  const key = keys.checkpoint("t1", ID);
  await put(store, key, "a canary");
  expect(await record(store, key)).toBe("a canary");
  expect(Buffer.from((await look(engine, key))!).includes("canary")).toBe(false);
  const again = await openEncryption(engine, [root]);
  expect(await record(again.store, key)).toBe("a canary");
});

test("the first write of a task is one attempt, and writes the key of the task", async () => {
  const key = keys.task("t1");
  const { attempts } = await write(store, async (tx) => {
    expect(await tx.get(key)).toBeUndefined();
    tx.set(key, encodeChecked(1));
  });
  expect(attempts).toBe(1);
  expect(await look(engine, keys.dataKeys("t1"))).toBeDefined();
  // Without a read before: the key of the task is not known to this service.
  const other = await openEncryption(engine, [root]);
  expect((await write(other.store, (tx) => tx.set(key, encodeChecked(2)))).attempts).toBe(1);
  expect(await record(store, key)).toBe(2);
});

test("a transaction that writes the first rows of many tasks and tenants runs twice", async () => {
  const tenants = ["default", "clinic", "lab"].map(tenantKeys);
  const tasks = Array.from({ length: 20 }, (_, n) => `new-${n}`);
  const all = tenants.flatMap((of) => tasks.map((task) => of.task(task)));
  let wraps = 0;
  const counting: KeyEncryptionKey = {
    ...root,
    wrap: (key, context) => {
      wraps += 1;
      return root.wrap(key, context);
    },
  };
  const own = (await openEncryption(engine, [counting])).store;
  let runs = 0;
  await write(own, async (tx) => {
    runs += 1;
    for (const [n, key] of all.entries()) tx.set(key, encodeChecked(n));
    tx.set(tenants[1]!.command(ID), encodeChecked("of no task"));
    // What the attempt has written is read as it was, also if the attempt does not commit.
    expect((await tx.getMany(all)).map((value) => decodeChecked(value!))).toEqual([...all.keys()]);
  });
  expect({ runs, wraps }).toEqual({ runs: 2, wraps: tenants.length });
  const fresh = (await openEncryption(engine, [root])).store;
  expect(await Promise.all(all.map((key) => record(fresh, key)))).toEqual([...all.keys()]);
  expect(await record(fresh, tenants[1]!.command(ID))).toBe("of no task");
});

test("an error of a run that only collected keys is not that of the transaction", async () => {
  const key = tenantKeys("clinic").task("t1");
  let runs = 0;
  await write(store, (tx) => {
    runs += 1;
    tx.set(key, encodeChecked(runs));
    if (runs === 1) throw new Error("of the first run");
  });
  expect(runs).toBe(2);
  expect(await record(store, key)).toBe(2);
  const refused = write(store, (tx) => {
    tx.set(tenantKeys("lab").task("t1"), encodeChecked(1));
    throw new Error("of every run");
  });
  await expect(refused).rejects.toThrow("of every run");
  expect(await record(store, tenantKeys("lab").task("t1"))).toBeUndefined();
});

test("a read of a range looks each row up in the layout once", async () => {
  const { ring } = await openEncryption(engine, [root]);
  let looked = 0;
  const layout: Layout = (key) => {
    looked += 1;
    return fleetLayout(key);
  };
  const counted = encryptedStore(engine, ring, { layout, isConverted: true });
  const ids = [1, 2, 3].map((n) => ID.replace(/1$/, String(n)));
  for (const id of ids) await put(counted, keys.checkpoint("t1", id), id);
  await write(counted, async (tx) => {
    looked = 0;
    const { rows } = await tx.getRange(keys.ofTask("checkpoints", "t1"), { limit: 9 });
    expect(rows.map(({ value }) => decodeChecked(value))).toEqual(ids);
    expect(looked).toBe(ids.length);
  });
});

test("services that write the first rows of a task at once use one key", async () => {
  const other = (await openEncryption(engine, [root])).store;
  const writers = [store, other, store, other, store, other];
  await Promise.all(writers.map((one, n) => put(one, keys.checkpoint("t1", ID.replace(/1$/, String(n))), n)));
  const seen = await Promise.all(
    writers.map((_, n) => record(store, keys.checkpoint("t1", ID.replace(/1$/, String(n))))),
  );
  expect(seen).toEqual([0, 1, 2, 3, 4, 5]);
});

test("a row that was moved to another task, record or tenant is damaged", async () => {
  await put(store, keys.checkpoint("t1", ID), "secret");
  await put(store, keys.checkpoint("t2", ID), "other");
  const other = tenantKeys("clinic").checkpoint("t1", ID);
  await put(store, other, "third");
  const version = keys.version("t1", ID, 1);
  for (const to of [keys.checkpoint("t2", ID), version, other]) {
    await copyRow(keys.checkpoint("t1", ID), to);
    expect(await record(store, to)).toBe("damaged");
  }
});

test("a row with a cut tag, a changed byte or another key's id is damaged", async () => {
  const key = keys.checkpoint("t1", ID);
  await put(store, key, "secret");
  const sound = Buffer.from((await look(engine, key))!);
  const tampered = Array.from({ length: sound.length }, (_, at) => {
    const bytes = Buffer.from(sound);
    bytes[at]! ^= 1;
    return bytes;
  });
  for (const bytes of [sound.subarray(0, -12), sound.subarray(0, 2), ...tampered]) {
    await write(engine, (tx) => tx.set(key, bytes));
    expect(await record(store, key)).toBe("damaged");
  }
});

test("a plain row in a converted store is damaged, also beside encrypted ones", async () => {
  const [key, second] = [keys.checkpoint("t1", ID), keys.task("t1")];
  await put(store, key, "secret");
  await put(store, second, "head");
  await put(engine, key, "forged");
  expect(await record(store, key)).toBe("damaged");
  expect(await record(store, second)).toBe("head");
  // Without the record of the conversion, no plain row is believed either.
  await write(engine, (tx) => {
    tx.clear(systemKeys.encryption());
  });
  expect(await record(store, key)).toBe("damaged");
  await expect(openEncryption(engine, [root])).rejects.toMatchObject({ code: "CORRUPT" });
});

test("a wrapped key of one tenant or task does not unwrap under another", async () => {
  const clinic = tenantKeys("clinic");
  await put(store, keys.checkpoint("t1", ID), "secret");
  await put(store, clinic.checkpoint("t1", ID), "other");
  await put(store, keys.checkpoint("t2", ID), "second");
  await copyRow(keys.dataKeys("t1"), keys.dataKeys("t2"));
  await copyRow(systemKeys.bucketKey("default", 1), systemKeys.bucketKey("clinic", 1));
  const fresh = (await openEncryption(engine, [root])).store;
  expect(await record(fresh, keys.checkpoint("t2", ID))).toBe("damaged");
  expect(await record(fresh, keys.checkpoint("t1", ID))).toBe("secret");
  expect(await record(fresh, clinic.checkpoint("t1", ID))).toBe("damaged");
  await expect(put(fresh, clinic.checkpoint("t3", ID), "new")).rejects.toBeInstanceOf(UnreadableValue);
});

test("a service without the root key, or with another, does not open the store", async () => {
  await put(store, keys.checkpoint("t1", ID), "secret");
  await expect(requirePlainStore(engine)).rejects.toMatchObject({ code: "CONFLICT" });
  await expect(openEncryption(engine, [rootKey()])).rejects.toMatchObject({
    kind: "unavailable",
    details: { root_key: root.id },
  });
  const both = await openEncryption(engine, [rootKey(), root]);
  expect(await record(both.store, keys.checkpoint("t1", ID))).toBe("secret");
  const plain = await openStore("memory:");
  await requirePlainStore(plain);
  await plain.close({ drainMs: 0 });
});

test("while the root key cannot be used, nothing is written, and known keys work for five minutes", async () => {
  let isAway = false;
  let nowMs = 0;
  const refuse = () => {
    if (isAway) throw new KeyEncryptionError("unavailable", "the key service does not answer");
  };
  const remote: KeyEncryptionKey = {
    id: root.id,
    wrap: async (key, context) => {
      refuse();
      return root.wrap(key, context);
    },
    unwrap: async (wrapped, context) => {
      refuse();
      return root.unwrap(wrapped, context);
    },
  };
  const opened = (await openEncryption(engine, [remote], { now: () => nowMs })).store;
  const key = keys.checkpoint("t1", ID);
  await put(opened, key, "first");
  isAway = true;
  nowMs = 4 * 60_000;
  await put(opened, key, "second");
  nowMs = 6 * 60_000;
  await expect(put(opened, key, "third")).rejects.toMatchObject({ kind: "unavailable", committed: "no" });
  await expect(record(opened, key)).rejects.toMatchObject({ kind: "unavailable" });
  await expect(put(opened, tenantKeys("new").task("t"), "x")).rejects.toMatchObject({ kind: "unavailable" });
  expect(await look(engine, tenantKeys("new").task("t"))).toBeUndefined();
  isAway = false;
  expect(await record(opened, key)).toBe("second");
  await put(opened, key, "third");
  expect(await record(store, key)).toBe("third");
});

test("rows that were written before the keys of a task were destroyed cannot be read from a copy", async () => {
  const other = (await openEncryption(engine, [root])).store;
  const [content, head] = [keys.checkpoint("t1", ID), keys.task("t1")];
  await put(store, content, "secret");
  await put(other, head, "before");
  const copied = (await look(engine, content))!;
  await write(store, async (tx) => {
    tx.clear(content);
    await destroyDataKeys(tx, "default", "t1");
    tx.set(head, encodeChecked("after"));
  });
  expect(await record(other, head)).toBe("after");
  // The other service still knows the old key, and does not use it.
  await put(other, head, "later");
  const fresh = (await openEncryption(engine, [root])).store;
  expect(await record(fresh, head)).toBe("later");
  await write(engine, (tx) => tx.set(content, copied));
  expect(await record(fresh, content)).toBe("damaged");
});

const READS: Readonly<Record<string, (tx: Tx, key: Bytes) => Promise<unknown>>> = {
  "reads a row of the task": (tx, key) => tx.get(key),
  "reads rows of the task": (tx, key) => tx.getMany([key]),
  "reads a row of the task in the snapshot": (tx, key) => tx.snapshot.get(key),
  "reads no row of the task": async () => {},
};
describe.each(["knows the keys", "loads the keys"])("a service that %s", (service) => {
  test.each(Object.entries(READS))(
    "and %s commits with none of the keys that are destroyed",
    async (_, read) => {
      const [content, head] = [keys.checkpoint("t1", ID), keys.task("t1")];
      await put(store, head, "before");
      const own = service === "knows the keys" ? store : (await openEncryption(engine, [root])).store;
      let hasDestroyed = false;
      let runs = 0;
      await write(own, async (tx) => {
        await read(tx, head);
        tx.set(content, encodeChecked("new"));
        runs += 1;
        if (hasDestroyed) return;
        hasDestroyed = true;
        await write(store, async (other) => {
          await destroyDataKeys(other, "default", "t1");
          other.set(head, encodeChecked("after"));
        });
      });
      expect(runs).toBeGreaterThan(1);
      const fresh = (await openEncryption(engine, [root])).store;
      expect(await record(fresh, content)).toBe("new");
      expect(await record(fresh, head)).toBe("after");
    },
  );
});

test("a transaction that wrote with the keys of a task cannot destroy them", async () => {
  await put(store, keys.task("t1"), "head");
  const both = write(store, async (tx) => {
    tx.set(keys.task("t1"), encodeChecked("lost"));
    await destroyDataKeys(tx, "default", "t1");
  });
  await expect(both).rejects.toMatchObject({ kind: "invalid" });
  expect(await record(store, keys.task("t1"))).toBe("head");
});

test("values with the stamp of their commit, and rows with it in their key, are encrypted", async () => {
  const command = keys.command(ID);
  const { stamp } = await write(store, (tx) => {
    tx.setStampedValue(command, new Uint8Array(0), Buffer.from("answer"));
    tx.setStampedKey(systemKeys.outboxPrefix(3, 1), new Uint8Array(0), encodeChecked("an offer"));
  });
  expect(Buffer.from((await look(store, command))!)).toEqual(Buffer.concat([stamp!, Buffer.from("answer")]));
  const page = (from: Store) =>
    from.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
      reader.getRange(systemKeys.outboxRange(3), { limit: 9 }),
    );
  expect((await page(store)).rows.map(({ value }) => decodeChecked(value))).toEqual(["an offer"]);
  const raw = [(await look(engine, command))!, (await page(engine)).rows[0]!.value];
  for (const bytes of raw) expect(Buffer.from(bytes).toString("latin1")).not.toMatch(/answer|offer/);
});

test("an older version of a row at its own address is decrypted, and found by the hashes of the trail", async () => {
  const repository = repositoryOn(store, { format: await openFormat(store) });
  const { checkpoint_id: id } = await create(repository, { task: "t1" });
  const row = keys.checkpoint("t1", id);
  const older = (await look(engine, row))!;
  const change = { checkpoint_id: id, patch: { execution_state: { current_focus: "later" } } };
  await send(repository, "update", change, { task: "t1" });
  expect(await repository.get("default", id)).toMatchObject({ metadata: { version: 2 } });
  await write(engine, (tx) => tx.set(row, older));
  const { pass } = await scrub({ store, repository });
  expect(pass.findings).toBeGreaterThan(0);
  expect(await findingsOf(repository)).not.toEqual([]);
});
