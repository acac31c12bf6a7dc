/** Attacks of someone who can write to the store, against a third party that has kept a receipt and a checkpoint. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { entryHash } from "../../../../shared/integrity/chain.ts";
import { judgeSignatureNow, signatureIn } from "../../../../shared/integrity/commit-signature.ts";
import type { AuditProof } from "../../../../shared/protocol/audit-log.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { KeyValue, Tx } from "../../../../shared/store/store.ts";
import {
  judgeContinuation,
  judgeReceipt,
  keptCheckpoint,
} from "../../../../shared/transfer/audit-receipt.ts";
import { waitingBodies } from "../../../harness/records/outbox.ts";
import { create, ENGINES } from "../../../harness/records/records.ts";
import { dump, restoreRows } from "../../../harness/records/rows.ts";
import { findingsOf, scrub, streamOf } from "../../../harness/records/scrub.ts";
import { newKey, openSignedRecords, type SignedRecords, WRITING } from "../../../harness/records/signed.ts";
import { insertSecondEntry, rewriteChainOf, rewriteLogOf } from "./attack-edits.ts";
import { appendAll } from "./logs.ts";

const keys = tenantKeys("default");
const TASK = "task-1";

describe.each(ENGINES)("on %s", (engine) => {
  let records: SignedRecords;
  beforeEach(async () => {
    records = await openSignedRecords(engine);
    for (let i = 0; i < 3; i += 1) await create(records.repository);
    await create(records.repository, { task: "task-2" });
    await appendAll(records.store);
  });
  afterEach(() => records.close());

  const receiptOf = (seq?: number, task = TASK) =>
    records.repository.auditLogs.prove("default", { task_id: task, seq });
  const judged = (receipt: AuditProof, ...ids: string[]) => judgeReceipt(receipt, ids).problem;
  const checkpoint = async () => (await records.repository.auditLogs.state("default", {})).checkpoint!;
  const continues = async (note: string) => {
    const publicKeys = [records.key.publicKey];
    const since_size = keptCheckpoint(note, publicKeys)?.size ?? 0;
    const log = await records.repository.auditLogs.state("default", { since_size });
    return judgeContinuation(note, log, { kept: publicKeys, newest: publicKeys });
  };
  const edit = (change: (tx: Tx) => Promise<unknown>) => records.raw.transact(WRITING, change);
  const found = async () => {
    await scrub({ store: records.raw, repository: records.repository });
    return (await findingsOf(records.repository)).map(({ details }) => details).join("\n");
  };

  const rewriteChain = () => rewriteChainOf(records.raw, TASK);
  const rewriteLog = () => rewriteLogOf(records);

  test("a sound store: receipts are valid, the log continues, the scrub finds nothing", async () => {
    const note = await checkpoint();
    for (const seq of [1, 2, 3, undefined]) expect(judged(await receiptOf(seq), records.key.id)).toBeNull();
    await create(records.repository);
    await expect(receiptOf(4)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(receiptOf(5)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await appendAll(records.store);
    expect(judged(await receiptOf(4), records.key.id)).toBeNull();
    expect(await continues(note)).toBeNull();
    expect(await continues(await checkpoint())).toBeNull();
    expect(await found()).toBe("");
  });

  test("every changed part of a receipt is refused", async () => {
    const receipt = await receiptOf(2);
    const { entry, proof, checkpoint: note } = receipt;
    const other = await receiptOf(3);
    const changes: Partial<AuditProof>[] = [
      { entry: entry.replace("agent-1", "agent-2") },
      { entry: other.entry },
      { entry: `${entry} ` },
      { seq: 3 },
      { task_id: "task-2" },
      { tenant: "acme" },
      { index: receipt.index + 1 },
      { proof: proof.slice(1) },
      { proof: [...proof, proof[0]!] },
      { proof: proof.with(0, "rubbish") },
      { checkpoint: note.replace("\n", "2\n") },
      { checkpoint: note.replace(/\n(\d+)\n/, (_, size: string) => `\n${Number(size) + 1}\n`) },
      { public_key: newKey().publicKey },
    ];
    for (const change of changes)
      expect(judged({ ...receipt, ...change }), JSON.stringify(change)).not.toBeNull();
    expect(judged(receipt, newKey().id)).toBe("its checkpoint is signed with another key");
    for (const value of [null, [], {}, { ...receipt, proof: "x" }])
      expect(judgeReceipt(value, []).problem).toBe("it is not a receipt of an audit entry");
  });

  test("an edited entry has no valid receipt, and the scrub finds it", async () => {
    await edit(async (tx) => {
      const text = decode<string>((await tx.get(keys.audit(TASK, 2)))!);
      tx.set(keys.audit(TASK, 2), encode(text.replace("agent-1", "agent-2")));
    });
    expect(judged(await receiptOf(2))).toContain("does not have this entry");
    expect(await found()).toContain("entry 2: the audit log has another entry at its place");
  });

  test("a deleted entry, and one that was inserted in its place", async () => {
    const kept = await receiptOf(2);
    await edit(async (tx) => tx.clear(keys.audit(TASK, 2)));
    await expect(receiptOf(2)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await edit(async (tx) => tx.set(keys.audit(TASK, 2), encode((await receiptOf(1)).entry)));
    expect(judged(await receiptOf(2))).toBe("its entry is that of another place");
    // The receipt of the third party stays the proof of what was there.
    expect(judged(kept, records.key.id)).toBeNull();
  });

  test("an entry that was inserted in the middle of a chain", async () => {
    const [note, kept] = [await checkpoint(), await receiptOf(2)];
    await insertSecondEntry(records.raw, TASK);
    expect(judged(await receiptOf(2))).toContain("does not have this entry");
    expect(await found()).toContain("entry 2: the audit log has another entry at its place");
    await rewriteLog();
    expect(judged(kept, records.key.id)).toBeNull();
    expect(await continues(note)).toContain("does not begin with the entries of the kept checkpoint");
  });

  test("a chain that was written again as a whole", async () => {
    const note = await checkpoint();
    await rewriteChain();
    expect(judged(await receiptOf(1))).toContain("does not have this entry");
    expect(await found()).toContain("the audit log has another entry at its place");
    await rewriteLog();
    // The store agrees with itself again, and receipts are valid. The kept checkpoint is what proves the attack.
    expect(judged(await receiptOf(1), records.key.id)).toBeNull();
    expect(await continues(note)).toContain("does not begin with the entries of the kept checkpoint");
  });

  test("an older copy of the store, before and after further work", async () => {
    const copy = await dump(records.raw);
    for (let i = 0; i < 3; i += 1) await create(records.repository);
    await appendAll(records.store);
    const note = await checkpoint();
    await restoreRows(records.raw, copy);
    expect(await continues(note)).toContain("the store is an older copy, or its log was cut off");
    for (let i = 0; i < 9; i += 1) await create(records.repository, { task: `other-${i}` });
    await appendAll(records.store);
    expect(await continues(note)).toContain("does not begin with the entries of the kept checkpoint");
  });

  test("a task whose every record was dropped, also from the log", async () => {
    const [note, kept] = [await checkpoint(), await receiptOf(1, "task-2")];
    await edit(async (tx) => {
      for (const range of [keys.auditRange("task-2"), keys.orderRange("task-2"), keys.signatures("task-2")])
        tx.clearRange(range);
      tx.clear(keys.task("task-2"));
    });
    await expect(receiptOf(1, "task-2")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(judged(kept, records.key.id)).toBeNull();
    expect(await continues(note)).toBeNull();
    await rewriteLog();
    expect(await continues(note)).not.toBeNull();
  });

  test("a task that was dropped before it was in the log: its writer has a signed entry without a receipt", async () => {
    const before = await dump(records.raw);
    await create(records.repository, { task: "dropped" });
    const query = { task_id: "dropped", from_seq: 1, limit: 10, signatures: true };
    const { entries, signatures } = await records.repository.audit("default", query);
    const events = streamOf(await waitingBodies(records.raw, "dropped"));
    await restoreRows(records.raw, before);
    await appendAll(records.store);
    // The store agrees with itself, and no receipt can be made.
    await expect(receiptOf(1, "dropped")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await found()).toBe("");
    // What the writer has kept proves that the fleet has committed the entry.
    const key = (await records.repository.signingKeys.list()).keys.find(
      ({ key_id }) => key_id === records.key.id,
    )!;
    const { problem, verified } = judgeSignatureNow(signatureIn(signatures![0]!.envelope!), key);
    expect(problem).toBeNull();
    expect(verified!.statement).toMatchObject({
      ...{ tenant: "default", task: "dropped", first: 1 },
      entries: [entryHash(entries[0]!.entry)],
    });
    // The stream still has its event, with which the scrub compares the store.
    await scrub({ store: records.raw, repository: records.repository }, { events });
    expect(await findingsOf(records.repository)).toContainEqual(
      expect.objectContaining({ task_id: "dropped", kind: "event" }),
    );
  });

  test("two auditors who were shown different histories, once they compare their checkpoints", async () => {
    const copy = await dump(records.raw);
    const shown = await checkpoint();
    const histories: { readonly note: string; readonly rows: KeyValue[] }[] = [];
    for (const task of ["of-one", "of-other"]) {
      await restoreRows(records.raw, copy);
      for (let i = 0; i < 3; i += 1) await create(records.repository, { task });
      await appendAll(records.store);
      // Each auditor alone finds nothing: the history continues what they have kept.
      expect(await continues(shown)).toBeNull();
      histories.push({ note: await checkpoint(), rows: await dump(records.raw) });
    }
    const [one, other] = histories as [(typeof histories)[0], (typeof histories)[0]];
    expect(await continues(one.note)).toContain("does not begin with the entries of the kept checkpoint");
    for (let i = 0; i < 5; i += 1) await create(records.repository, { task: "of-other" });
    await appendAll(records.store);
    expect(await continues(one.note)).toContain("does not begin with the entries of the kept checkpoint");
    await restoreRows(records.raw, one.rows);
    expect(await continues(other.note)).toContain("does not begin with the entries of the kept checkpoint");
  });

  test("checkpoints of others: another key, another log, no checkpoint", async () => {
    await create(records.repository, { tenant: "acme" });
    await appendAll(records.store);
    const acme = (await records.repository.auditLogs.state("acme", {})).checkpoint!;
    expect(await continues(acme)).toBe("the kept checkpoint is of another log");
    const note = await checkpoint();
    const log = await records.repository.auditLogs.state("default", { since_size: 1 });
    const unknown = "the kept checkpoint is not signed with a key of the fleet";
    const [own, others] = [[records.key.publicKey], [newKey().publicKey]];
    expect(judgeContinuation(note, log, { kept: others, newest: own })).toBe(unknown);
    expect(judgeContinuation(note, log, { kept: own, newest: others })).toContain("not revoked");
    expect(await continues("rubbish")).toBe(unknown);
  });

  test("lost places and tiles are findings", async () => {
    await edit(async (tx) => tx.clear(keys.logPlace(TASK, 1)));
    expect(await found()).toContain("entry 1: its place in the audit log is lost");
    await edit(async (tx) => tx.clear(keys.logTile(0, 0)));
    expect(await found()).toContain("entry 2: its tile of the audit log is lost or damaged");
    await expect(receiptOf(2)).rejects.toMatchObject({ code: "CORRUPT" });
  });
});
