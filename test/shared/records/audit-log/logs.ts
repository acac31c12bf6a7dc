/** The audit log of a test store: appended without its service, and read back as a third party would rebuild it. */

import { leafHash } from "../../../../shared/integrity/merkle/hashes.ts";
import { openCheckpoint, type SignedCheckpoint } from "../../../../shared/integrity/merkle/note.ts";
import { leafAt } from "../../../../shared/integrity/merkle/tree.ts";
import { stepCatchUp } from "../../../../shared/records/audit-log/log-catch-up.ts";
import { stepAuditLog } from "../../../../shared/records/audit-log/log-job.ts";
import { readLog, tilesOf } from "../../../../shared/records/audit-log/log-records.ts";
import { markUnloggedActs } from "../../../../shared/records/audit-log/log-walk.ts";
import { decode } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { KeyRange, KeyValue, Store } from "../../../../shared/store/store.ts";
import { WRITING } from "../../../harness/records/signed.ts";

const guard = async (): Promise<void> => {};

/**
 * Appends all that is not in a log, as the watchdog with the lease does. Returns the number of entries. Throws for a log
 * that is damaged, after the others were written.
 */
export async function appendAll(store: Store, { walks = true } = {}): Promise<number> {
  if (walks)
    for (let next = await markUnloggedActs({ store, guard }); next !== null; )
      next = await markUnloggedActs({ store, guard }, next);
  const appended = await appendFollowing(store);
  return appended + (await catchUpAll(store)) + (await appendFollowing(store));
}

async function appendFollowing(store: Store): Promise<number> {
  for (let appended = 0; ; ) {
    const step = await stepAuditLog({ store, guard, now: Date.now });
    if (step === null) return appended;
    appended += step.appended;
  }
}

async function catchUpAll(store: Store): Promise<number> {
  let appended = 0;
  for (let tenant: string | null = null; ; ) {
    const step = await stepCatchUp({ store, guard, now: Date.now }, tenant);
    if (step === null) return appended;
    if (step.error !== null) throw step.error;
    appended += step.appended;
  }
}

export interface ReadLog {
  readonly leaves: readonly string[];
  readonly size: number;
  readonly root: Uint8Array;
  /** null: it is not signed with the key. */
  readonly signed: SignedCheckpoint | null;
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

export function logOf(store: Store, tenant: string, publicKey = ""): Promise<ReadLog> {
  return store.read(WRITING, async (reader) => {
    const { size, root, note } = await readLog(reader, tenant);
    const tiles = tilesOf(reader, tenantKeys(tenant));
    const leaves: string[] = [];
    for (let i = 0; i < size; i += 1) leaves.push(hex(await leafAt(tiles, i)));
    return { leaves, size, root, signed: note === null ? null : openCheckpoint(note, [publicKey]) };
  });
}

/** The leaves of all entries of a tenant, as its chains have them: the tasks by name, then the operators'. */
export async function entriesOf(store: Store, tenant: string): Promise<string[]> {
  const keys = tenantKeys(tenant);
  const rows = [
    ...(await rowsIn(store, keys.ofTasksAfter("audit", null))),
    ...(await rowsIn(store, keys.tenantAudits())),
  ];
  return rows.map(({ value }) => hex(leafHash(decode<string>(value))));
}

async function rowsIn(store: Store, range: KeyRange): Promise<readonly KeyValue[]> {
  return (await store.read(WRITING, (reader) => reader.getRange(range, { limit: 10_000 }))).rows;
}
