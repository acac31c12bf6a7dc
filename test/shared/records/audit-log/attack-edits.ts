/** What someone does who can write to the store and has the key of the fleet. */
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { entryHash } from "../../../../shared/integrity/chain.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { decodeHead, encodeHead } from "../../../../shared/records/task/head.ts";
import type { KeyValue, Store } from "../../../../shared/store/store.ts";
import { familyOf } from "../../../harness/records/edits.ts";
import { dump, restoreRows } from "../../../harness/records/rows.ts";
import { type SignedRecords, WRITING } from "../../../harness/records/signed.ts";
import { appendAll } from "./logs.ts";

const keys = tenantKeys("default");
const LOG = ["log", "log_tiles", "log_places", "tenant_log_places"];

const isOfLog = (row: Pick<KeyValue, "key">): boolean =>
  LOG.includes(familyOf(row)) || Buffer.compare(row.key, systemKeys.meta("audit_log")) === 0;

/** Writes the whole chain of the task again with other facts in its entries, with sound hashes and head. */
export async function rewriteChainOf(
  raw: Store,
  task: string,
  facts: Readonly<Record<string, unknown>> = { actor: { id: "mallory", type: "agent" } },
): Promise<void> {
  await raw.transact(WRITING, async (tx) => {
    const { rows } = await tx.getRange(keys.auditRange(task), { limit: 100 });
    let prev = "0".repeat(64);
    for (const { key, value } of rows) {
      const entry = JSON.parse(decode<string>(value));
      const text = canonicalText({ ...entry, prev, ...facts });
      prev = entryHash(text);
      tx.set(key, encode(text));
    }
    const head = decodeHead((await tx.get(keys.task(task)))!);
    tx.set(keys.task(task), encodeHead({ ...head, audit_hash: prev }));
  });
}

/** Puts a copy of the first entry behind it, and writes the rest of the chain again with sound numbers, hashes and head. */
export async function insertSecondEntry(raw: Store, task: string): Promise<void> {
  await raw.transact(WRITING, async (tx) => {
    const { rows } = await tx.getRange(keys.auditRange(task), { limit: 100 });
    const entries = rows.map(({ value }) => JSON.parse(decode<string>(value)));
    entries.splice(1, 0, { ...entries[0], actor: { id: "mallory", type: "agent" } });
    let prev = "0".repeat(64);
    for (const [i, entry] of entries.entries()) {
      const text = canonicalText({ ...entry, seq: i + 1, prev });
      prev = entryHash(text);
      tx.set(keys.audit(task, i + 1), encode(text));
    }
    const head = decodeHead((await tx.get(keys.task(task)))!);
    tx.set(keys.task(task), encodeHead({ ...head, audit_seq: entries.length, audit_hash: prev }));
  });
}

/** Makes the log forget everything, and writes it again from the chains, signed with the key of the fleet. */
export async function rewriteLogOf({ raw, store }: SignedRecords): Promise<void> {
  const rows = (await dump(raw)).filter(({ key }) => !isOfLog({ key }));
  await restoreRows(raw, rows);
  await appendAll(store);
}
