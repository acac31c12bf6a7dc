/**
 * The statements in the audit chain of each tenant that the store was restored from a backup: what the log had then. Without
 * them a restored store looks like an older copy that an attacker has put in its place.
 */
import type { Reader, Tx } from "../../store/store.ts";
import type { AuditActor } from "../audit/audit.ts";
import { appendTenantAudit } from "../audit/tenant-audit.ts";
import { encode, isDamage } from "../kv/codec.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import { isOfOneLog, readLog } from "./log-records.ts";

export interface StoreRestoration {
  readonly actor: AuditActor;
  readonly at: string;
  readonly backupAt: string;
}

/**
 * Appends the statement to the chain of a tenant, in the transaction that begins with this tenant. A damaged chain gets none: it
 * must not prevent the restore, and its log is then no continuation of any earlier one.
 */
export async function stateRestore(
  tx: Tx,
  tenant: string,
  { actor, at, backupAt }: StoreRestoration,
): Promise<void> {
  const log = await readLog(tx, tenant).catch((error: unknown) => {
    if (isOfOneLog(error)) return null;
    throw error;
  });
  if (log === null) return;
  const subject = {
    backup_at: backupAt,
    log_root: Buffer.from(log.root).toString("base64"),
    log_size: log.size,
  };
  try {
    const head = await appendTenantAudit(tx, tenant, [{ action: "store_restore", actor, at, subject }]);
    if (head !== null) tx.set(tenantKeys(tenant).logRestore(head.seq), encode(null));
  } catch (error) {
    if (!isDamage(error) && !isOfOneLog(error)) throw error;
  }
}

/** The numbers of the newest statements in the chain of the tenant, the newest first. */
export async function readRestoreStatements(
  reader: Reader,
  tenant: string,
  limit: number,
): Promise<number[]> {
  const { rows } = await reader.getRange(tenantKeys(tenant).logRestores(), { limit, reverse: true });
  return rows.map(({ key }) => parseSeq(key));
}
