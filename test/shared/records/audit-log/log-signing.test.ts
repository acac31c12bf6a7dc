/** The checkpoint of a log without new entries is signed with the key in use. The delay is that of one tenant. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openCheckpoint } from "../../../../shared/integrity/merkle/note.ts";
import { signLogsAgain } from "../../../../shared/records/audit-log/log-signing.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { judgeReceipt } from "../../../../shared/transfer/audit-receipt.ts";
import { create, ENGINES, OPERATOR } from "../../../harness/records/records.ts";
import {
  newKey,
  openSignedRecords,
  register,
  repositoryOn,
  type SignedRecords,
  storeSignedBy,
  WRITING,
} from "../../../harness/records/signed.ts";
import { appendAll } from "./logs.ts";

const guard = async (): Promise<void> => {};

describe.each(ENGINES)("on %s", (engine) => {
  let records: SignedRecords;
  beforeEach(async () => {
    records = await openSignedRecords(engine);
    await create(records.repository);
    await create(records.repository, { tenant: "acme" });
    await appendAll(records.store);
  });
  afterEach(() => records.close());

  const stateOf = (tenant: string) => records.repository.auditLogs.state(tenant, {});

  /** Replaces the key. The old one is revoked. */
  async function rotated() {
    const next = newKey();
    const store = storeSignedBy(records.raw, next);
    await register(store, next);
    const by = { tenant: "default", caller: "human=olga" };
    await repositoryOn(store, records).signingKeys.revoke(by, {
      key_id: records.key.id,
      reason: "replaced",
    });
    return { next, store };
  }

  test("after a rotation, once, and the log is the same", async () => {
    const before = await stateOf("acme");
    expect((await signLogsAgain({ store: records.store, guard })).tenants).toEqual([]);
    const { next, store } = await rotated();
    expect(await signLogsAgain({ store, guard })).toMatchObject({ tenants: ["default", "acme"], next: null });
    const after = await stateOf("acme");
    expect(after).toMatchObject({ size: before.size, root: before.root, at: before.at });
    expect(openCheckpoint(after.checkpoint!, [next.publicKey])?.checkpoint.size).toBe(1);
    expect(openCheckpoint(after.checkpoint!, [records.key.publicKey])).toBeNull();
    expect((await signLogsAgain({ store, guard })).tenants).toEqual([]);
  });

  test("a log that was changed gets no new signature", async () => {
    const { store } = await rotated();
    await records.raw.transact(WRITING, async (tx) => tx.clear(tenantKeys("acme").logTile(0, 0)));
    expect((await signLogsAgain({ store, guard })).tenants).toEqual(["default"]);
  });

  test("an entry of the tenant's chain has a receipt", async () => {
    await records.repository.startScrub(OPERATOR);
    await appendAll(records.store);
    const newest = await records.repository.auditLogs.proveAct("default", {});
    expect(newest).toMatchObject({ tenant: "default", task_id: null, seq: 2 });
    expect(JSON.parse(newest.entry).action).toBe("scrub_start");
    expect(judgeReceipt(newest, [records.key.id]).problem).toBeNull();
    expect(judgeReceipt({ ...newest, task_id: "task-1" }, []).problem).toBe(
      "its entry is that of another place",
    );
    const task = await records.repository.auditLogs.prove("default", { task_id: "task-1" });
    expect(judgeReceipt({ ...task, task_id: null }, []).problem).toBe("its entry is that of another place");
    await expect(records.repository.auditLogs.proveAct("default", { seq: 9 })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
  });

  test("the delay of a tenant does not show the entries of another one", async () => {
    const delayOf = async (tenant: string) => (await stateOf(tenant)).delay_ms;
    await create(records.repository, { tenant: "acme" });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await delayOf("default")).toBe(0);
    expect(await delayOf("acme")).toBeGreaterThan(0);
    await records.repository.startScrub(OPERATOR);
    await records.raw.transact(WRITING, async (tx) => tx.clearRange(systemKeys.logsDue()));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await delayOf("default")).toBeGreaterThan(0);
    await appendAll(records.store);
    expect([await delayOf("default"), await delayOf("acme")]).toEqual([0, 0]);
  });
});
