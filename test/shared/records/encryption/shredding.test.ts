/** Shredding destroys the key of the task: what a copy of its rows has cannot be read with the keys of the store. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { sealedWith } from "../../../../shared/records/encryption/sealed-value.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { stepShredding } from "../../../../shared/records/retention/shred/shred-sweep.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { KeyRange, KeyValue, Store } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { create, input, send } from "../../../harness/records/records.ts";

const root = rootKey();
const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const keys = tenantKeys("default");
let engine: Store;

beforeEach(async () => {
  engine = await openStore("memory:");
});
afterEach(() => engine.close({ drainMs: 1_000 }));

const page = async (store: Store, range: KeyRange): Promise<KeyValue[]> =>
  (await store.read(LOOK, (reader) => reader.getRange(range, { limit: 100 }))).rows;
const content = () => page(engine, keys.ofTask("checkpoints", "secret"));

test("the content of a shredded task is unreadable in a copy, and the task itself is read", async () => {
  const { store } = await openEncryption(engine, [root]);
  const format = await openFormat(store);
  const parts = { finder: "test", now: Date.now, policies: DEFAULT_POLICIES };
  const repository = new CheckpointRepository({ store, format, ...parts });
  const { checkpoint_id: id } = await create(repository, {
    task: "secret",
    checkpoint: input({ goal: "canary" }),
  });
  await create(repository, { task: "other", checkpoint: input({ goal: "kept" }) });
  const copy = await content();
  const keyId = Buffer.from(sealedWith(copy[0]!.value)!).toString("hex");
  const oldKey = await engine.read(LOOK, (reader) => reader.get(keys.dataKeys("secret")));
  expect(copy).toHaveLength(1);
  expect(sealedWith(copy[0]!.value)).not.toBeNull();

  const by = (agent: string) => ({ task: "secret", agent });
  const { shred } = await send(repository, "shred_request", { reason: "erasure" }, by("human=olga"));
  await send(repository, "shred_approve", { request_seq: shred?.request_seq }, by("human=pavel"));
  const sweep = {
    store,
    incarnation: format.incarnation,
    service: "test",
    policies: DEFAULT_POLICIES,
    eraseMessages: async () => {},
  };
  const step = await stepShredding({ ...sweep, now: () => Date.now() + 1, guard: async () => {} });
  expect(step).toMatchObject({ removed: 1, ended: [{ task: "secret" }], failed: [] });

  const { envelope } = await repository.erasure.certificate("default", { task_id: "secret" });
  const statement = JSON.parse(Buffer.from(envelope.payload, "base64").toString()) as object;
  expect(statement).toMatchObject({ keys: [keyId] });

  // A service that knew the old key, and one that did not.
  const second = (await openEncryption(engine, [root])).store;
  for (const opened of [store, second]) {
    const records = new CheckpointRepository({ store: opened, format, ...parts });
    expect((await records.task("default", "secret")).shred).toMatchObject({ state: "shredded" });
    expect((await records.latest("default", "other")).checkpoint?.execution_state.goal).toBe("kept");
  }
  expect(await content()).toEqual([]);
  const newKey = await engine.read(LOOK, (reader) => reader.get(keys.dataKeys("secret")));
  expect(newKey).toBeDefined();
  expect(newKey).not.toEqual(oldKey);

  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(copy[0]!.key, copy[0]!.value));
  const third = (await openEncryption(engine, [root])).store;
  const [row] = await page(third, keys.ofTask("checkpoints", "secret"));
  expect(Buffer.from(row!.value).every((byte) => byte === 0xc1)).toBe(true);
  expect(id).toBeTruthy();
});
