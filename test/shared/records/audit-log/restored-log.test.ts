/** The statement in the log distinguishes a restore from an attack. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { supersedeAll } from "../../../../shared/records/restored/restored-store.ts";
import type { KeyValue } from "../../../../shared/store/store.ts";
import { judgeContinuation, keptCheckpoint } from "../../../../shared/transfer/audit-receipt.ts";
import { beginsWith, statedRestore } from "../../../../shared/transfer/stated-restore.ts";
import { create, ENGINES } from "../../../harness/records/records.ts";
import { dump, restoreRows } from "../../../harness/records/rows.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import {
  openSignedRecords,
  repositoryOn,
  type SignedRecords,
  WRITING,
} from "../../../harness/records/signed.ts";
import { rewriteLogOf } from "./attack-edits.ts";
import { appendAll } from "./logs.ts";

const OLGA = { id: "human=olga", type: "human" } as const;
const keys = tenantKeys("default");

describe.each(ENGINES)("on %s", (engine) => {
  let records: SignedRecords;
  let backup: readonly KeyValue[];
  let backupAt: string;
  /** A checkpoint from after the backup. */
  let kept: string;
  beforeEach(async () => {
    records = await openSignedRecords(engine);
    for (let i = 0; i < 3; i += 1) await create(records.repository);
    await create(records.repository, { tenant: "acme" });
    await appendAll(records.store);
    backupAt = new Date().toISOString();
    backup = await dump(records.raw);
    for (let i = 0; i < 5; i += 1) await create(records.repository);
    await appendAll(records.store);
    kept = await checkpoint();
  });
  afterEach(() => records.close());

  const trusted = () => ({ kept: [records.key.publicKey], newest: [records.key.publicKey] });
  const state = (since_size: number) => records.repository.auditLogs.state("default", { since_size });
  const checkpoint = async () => (await state(0)).checkpoint!;
  const restore = async () => {
    await restoreRows(records.raw, backup);
    await supersedeAll(records.store, { backupAt, nowMs: Date.now(), actor: OLGA });
    await reopen();
  };

  /** As the services that start after the restore. */
  async function reopen(): Promise<void> {
    const format = await openFormat(records.raw);
    records = { ...records, format, repository: repositoryOn(records.store, { format }) };
  }

  /** What `fleet audit consistent` finds for the holder of the checkpoint. */
  async function judged(note = kept) {
    const log = await state(keptCheckpoint(note, trusted().kept)?.size ?? 0);
    const problem = judgeContinuation(note, log, trusted());
    const stated = problem === null ? null : statedRestore(note, log, trusted());
    const isTrue = stated !== null && beginsWith(stated, await state(stated.log_size), trusted());
    return { problem, restored: isTrue ? stated : null };
  }

  test("a restore is stated, signed, in the log of every tenant, before and after further work", async () => {
    await restore();
    await appendAll(records.store);
    const { problem, restored } = await judged();
    expect(problem).toContain("the store is an older copy");
    // With the registration of the key.
    expect(restored).toMatchObject({ by: "human=olga", backup_at: backupAt, log_size: 4, lost: 5 });
    for (let i = 0; i < 9; i += 1) await create(records.repository);
    await appendAll(records.store);
    expect(await judged()).toMatchObject({
      problem: expect.stringContaining("does not begin with"),
      restored: { by: "human=olga", lost: 5 },
    });
    const { restores } = await records.repository.auditLogs.state("acme", { since_size: 0 });
    expect(restores).toMatchObject([{ tenant: "acme", task_id: null }]);
    await scrub({ store: records.raw, repository: records.repository });
    expect((await findingsOf(records.repository)).map(({ kind }) => kind)).toEqual([]);
  });

  test("checkpoints from before the backup and from after the restore are continued", async () => {
    const before = await restoredCheckpoint();
    await create(records.repository);
    await appendAll(records.store);
    const after = await checkpoint();
    await create(records.repository);
    await appendAll(records.store);
    for (const note of [before, after]) expect(await judged(note)).toEqual({ problem: null, restored: null });
  });

  async function restoredCheckpoint(): Promise<string> {
    await restoreRows(records.raw, backup);
    const note = await checkpoint();
    await supersedeAll(records.store, { backupAt, nowMs: Date.now(), actor: OLGA });
    await reopen();
    await appendAll(records.store);
    return note;
  }

  test("an older copy without a statement is an attack, also after a true restore from another backup", async () => {
    await restoreRows(records.raw, backup);
    for (let i = 0; i < 9; i += 1) await create(records.repository);
    await appendAll(records.store);
    expect(await judged()).toMatchObject({
      problem: expect.stringContaining("does not begin"),
      restored: null,
    });
    // The statement names a longer log than the kept checkpoint has, so it explains nothing.
    backup = await dump(records.raw);
    await restore();
    await appendAll(records.store);
    expect((await state(0)).restores).toHaveLength(1);
    expect((await judged()).restored).toBeNull();
  });

  test("a restore that is repeated after a kill is stated once", async () => {
    await restoreRows(records.raw, backup);
    let transactions = 0;
    const failing = Object.assign(Object.create(records.store) as typeof records.store, {
      read: ((options, body) => records.store.read(options, body)) as typeof records.store.read,
      transact: (async (options, body) => {
        transactions += 1;
        if (transactions === 3) throw new Error("killed");
        return records.store.transact(options, body);
      }) as typeof records.store.transact,
    });
    const facts = { backupAt, nowMs: Date.now(), actor: OLGA };
    await expect(supersedeAll(failing, facts)).rejects.toThrow("killed");
    await supersedeAll(records.store, facts);
    await appendAll(records.store);
    expect((await state(0)).restores).toHaveLength(1);
  });

  test.each([
    ["head of the chain", () => keys.tenantChain()],
    ["log", () => keys.log()],
  ])("a damaged %s prevents no restore, which has no statement then", async (_what, keyOf) => {
    await restoreRows(records.raw, backup);
    await records.raw.transact(WRITING, async (tx) => tx.set(keyOf(), Buffer.from("rubbish")));
    const done = await supersedeAll(records.store, { backupAt, nowMs: Date.now(), actor: OLGA });
    expect(done).toMatchObject({ tasks: 2 });
    const rows = await records.raw.read(WRITING, (reader) =>
      reader.getRange(keys.logRestores(), { limit: 10 }),
    );
    expect(rows.rows).toEqual([]);
  });

  test("a statement with another log, and one that is not in the log, explain nothing", async () => {
    await restore();
    await appendAll(records.store);
    const [receipt] = (await state(0)).restores!;
    const { entry, seq } = receipt!;
    const changed = JSON.parse(entry);
    changed.subject.log_root = Buffer.alloc(32, 1).toString("base64");
    await records.raw.transact(WRITING, async (tx) =>
      tx.set(keys.tenantAudit(seq), encode(canonicalText(changed))),
    );
    expect((await judged()).restored).toBeNull();
    // With the key of the fleet the attacker writes it into a new log, whose beginning contradicts it.
    await rewriteLogOf(records);
    expect(decode<string>((await records.raw.read(WRITING, (r) => r.get(keys.tenantAudit(seq))))!)).toContain(
      "store_restore",
    );
    expect((await judged()).restored).toBeNull();
  });
});
