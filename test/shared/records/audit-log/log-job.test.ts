/** The audit log has each entry of every chain exactly once, in the order of the feed, under a signed root. */
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { readLogDelay } from "../../../../shared/records/audit-log/log-delay.ts";
import { ChainEnds, readUnlogged } from "../../../../shared/records/audit-log/log-entries.ts";
import { stepAuditLog } from "../../../../shared/records/audit-log/log-job.ts";
import { readPlace } from "../../../../shared/records/audit-log/log-records.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { acquireLease, LeaseLost, requireLease } from "../../../../shared/records/leader/lease.ts";
import type { Reader } from "../../../../shared/store/store.ts";
import { create, ENGINES, openTestRecords, send } from "../../../harness/records/records.ts";
import { openSignedRecords, type SignedRecords, WRITING } from "../../../harness/records/signed.ts";
import { naiveRoot } from "../../integrity/merkle/naive-tree.ts";
import { appendAll, entriesOf, logOf } from "./logs.ts";

const now = Date.now;
const guard = async (): Promise<void> => {};
const bytesOf = (leaves: readonly string[]): Uint8Array[] => leaves.map((leaf) => Buffer.from(leaf, "hex"));

describe.each(ENGINES)("on %s", (engine) => {
  let records: SignedRecords;
  beforeEach(async () => {
    records = await openSignedRecords(engine);
  });
  afterEach(() => records.close());

  const log = (tenant = "default") => logOf(records.raw, tenant, records.key.publicKey);
  const entries = (tenant = "default") => entriesOf(records.raw, tenant);

  test("each entry once, with the order of commits, and a signed root", async () => {
    const { store, repository } = records;
    const places: [tenant: string, task: string, seq: number][] = [];
    for (let i = 0; i < 30; i += 1) {
      const [tenant, task] = [i % 3 === 0 ? "acme" : "default", `task-${i % 4}`];
      await create(repository, { tenant, task });
      places.push([tenant, task, places.filter(([a, b]) => a === tenant && b === task).length + 1]);
      if (i % 10 === 9) await appendAll(store);
    }
    await repository.startScrub({ tenant: "acme", caller: "human=olga" });
    await appendAll(store, { walks: false });
    for (const tenant of ["default", "acme"]) {
      const { leaves, size, root, signed } = await log(tenant);
      expect([...leaves].sort()).toEqual((await entries(tenant)).sort());
      expect(Buffer.from(root)).toEqual(Buffer.from(naiveRoot(bytesOf(leaves))));
      expect(signed?.checkpoint).toEqual({ origin: `fleet/audit/${tenant}`, size, root: Buffer.from(root) });
      const numbers = await records.raw.read(WRITING, (reader) =>
        Promise.all(
          places
            .filter((place) => place[0] === tenant)
            .map(([, task, seq]) => readPlace(reader, tenantKeys(tenant), { task, seq })),
        ),
      );
      expect(numbers).not.toContain(null);
      expect(numbers).toEqual([...numbers].sort((a, b) => a! - b!));
    }
    // The start of the scrub, and the registration of the key.
    expect((await log("acme")).size).toBe(11);
    expect((await log()).size).toBe(21);
  });

  test("entries from before the log get into it, and a damaged position repeats none", async () => {
    const { store, repository, raw } = records;
    for (let i = 0; i < 600; i += 50) {
      const some = Array.from({ length: 50 }, (_, n) =>
        send(repository, "take", {}, { task: `task-${i + n}` }),
      );
      await Promise.all(some);
    }
    // As an earlier version left it.
    await raw.transact(WRITING, async (tx) => tx.clearRange(systemKeys.logsDue()));
    const before = await raw.read(WRITING, (reader) => readLogDelay(reader, now() + 90_000));
    expect(before).toMatchObject({ entries: 0 });
    expect(before.delayMs).toBeGreaterThan(90_000);
    expect(await appendAll(store)).toBe(601);
    const first = await log();
    await raw.transact(WRITING, async (tx) => tx.set(systemKeys.meta("audit_log"), Buffer.from("rubbish")));
    expect(await appendAll(store)).toBe(0);
    await send(repository, "take", {}, { task: "one-more" });
    expect(await appendAll(store)).toBe(1);
    const second = await log();
    expect(second.leaves.slice(0, first.size)).toEqual(first.leaves);
    expect(await raw.read(WRITING, (reader) => readLogDelay(reader, now() + 90_000))).toMatchObject({
      delayMs: 0,
    });
  });

  test("instances that overtake each other append nothing twice", async () => {
    const { store, repository } = records;
    const logging = { store, guard, now };
    const writing = (async () => {
      for (let i = 0; i < 60; i += 1) await create(repository, { task: `task-${i % 5}` });
    })();
    let isWriting = true;
    const stepping = Array.from({ length: 3 }, async () => {
      while (isWriting) {
        await stepAuditLog(logging);
        await turn();
      }
    });
    await writing;
    isWriting = false;
    await Promise.all(stepping);
    await appendAll(store);
    expect([...(await log()).leaves].sort()).toEqual((await entries()).sort());
  });
});

describe("in memory", () => {
  test("hundreds of tenants fit into the transactions of the steps", async () => {
    const { store, repository, close } = await openTestRecords("memory");
    for (let i = 0; i < 150; i += 1) {
      const tenant = `tenant-${i}`;
      for (let n = 0; n < 3; n += 1) await create(repository, { tenant, task: "long-name".repeat(7) });
      const act = { action: "dead_drop", subject: { seq: 1 }, occasion: "dead-drop-1" } as const;
      await repository.tenantActs.record({ tenant, caller: "human=olga" }, [act]);
    }
    expect(await appendAll(store)).toBe(600);
    const { size, signed } = await logOf(store, "tenant-149");
    // Without a key the log is kept, and not signed.
    expect({ size, signed }).toEqual({ size: 4, signed: null });
    await close();
  });

  test("the end of a chain is not read again, and still binds what follows it", async () => {
    const { store, repository, close } = await openTestRecords("memory");
    const { audit } = tenantKeys("default");
    const logging = { store, guard, now, ends: new ChainEnds() };
    await create(repository);
    expect(await stepAuditLog(logging)).toMatchObject({ appended: 1 });
    await create(repository);
    await store.transact(WRITING, async (tx) => tx.clear(audit("task-1", 1)));
    expect(await stepAuditLog(logging)).toMatchObject({ appended: 1, unreadable: 0 });
    await create(repository);
    await store.transact(WRITING, async (tx) => {
      const entry = JSON.parse(decode<string>((await tx.get(audit("task-1", 3)))!)) as object;
      tx.set(audit("task-1", 3), encode(canonicalText({ ...entry, prev: "1".repeat(64) })));
    });
    expect(await stepAuditLog(logging)).toMatchObject({ appended: 0, unreadable: 1 });
    await close();
  });

  test("the row that only shows that there are more is not decrypted", async () => {
    const { store, repository, close } = await openTestRecords("memory");
    for (let i = 0; i < 3; i += 1) await create(repository);
    let opened = 0;
    const { entries, more } = await store.read(WRITING, (reader) => {
      const lazily: Reader["getRange"] = async (...of) => {
        const page = await reader.getRange(...of);
        const rows = page.rows.map(({ key, value }) => ({
          key,
          get value() {
            opened += 1;
            return value;
          },
        }));
        return { ...page, rows };
      };
      const lazy: Reader = {
        get: (key) => reader.get(key),
        getMany: (keys) => reader.getMany(keys),
        getRange: lazily,
      };
      return readUnlogged(lazy, { tenant: "default", task: "task-1" }, 1);
    });
    expect([entries.length, more, opened]).toEqual([1, true, 1]);
    await close();
  });

  test("an instance without the lease writes nothing", async () => {
    const { store, repository, close } = await openTestRecords("memory");
    await create(repository);
    const wanted = { job: "audit-log", holder: "a", nowMs: 0, leaseMs: 1 } as const;
    const lease = (await acquireLease(store, wanted))!;
    await acquireLease(store, { ...wanted, holder: "b", nowMs: 10 });
    const logging = {
      store,
      now,
      guard: (tx: Parameters<typeof requireLease>[0]) => requireLease(tx, lease),
    };
    await expect(stepAuditLog(logging)).rejects.toThrow(LeaseLost);
    expect((await logOf(store, "default")).size).toBe(0);
    await close();
  });
});
