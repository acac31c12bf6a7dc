/**
 * Signs the checkpoints of logs again that no key in use has signed: after a rotation or a revocation, without new entries. The
 * root is computed from the tiles first, so a log that was changed gets no new signature.
 */
import { isSameHash } from "../../integrity/merkle/hashes.ts";
import { openCheckpoint } from "../../integrity/merkle/note.ts";
import { treeRoot } from "../../integrity/merkle/tree.ts";
import { logOrigin } from "../../protocol/audit-log.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Reader } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { signLog } from "../signing/commit-signing.ts";
import { isKeyInUse, listSigningKeys } from "../signing/key-record.ts";
import { type AuditLogging, LOG_READ_DEADLINE_MS, LOG_WRITE } from "./log-job.ts";
import { fromTree, isOfOneLog, readLog, tilesOf, writeLog } from "./log-records.ts";

/** Tenants in one read. */
const PAGE_TENANTS = 50;

export interface SignedAgain {
  readonly tenants: readonly string[];
  /** The tenant with which the next call continues. null: there is none. */
  readonly next: string | null;
}

export async function signLogsAgain(
  { store, guard }: Pick<AuditLogging, "store" | "guard">,
  from: string = DEFAULT_TENANT,
): Promise<SignedAgain> {
  const options = { label: "walk_log_keys", deadlineMs: LOG_READ_DEADLINE_MS };
  const { outdated, next } = await store.read(options, async (reader) => {
    const inUse = (await listSigningKeys(reader)).filter(isKeyInUse).map(({ public_key }) => public_key);
    const outdated: string[] = [];
    let next: string | null = from;
    for (let i = 0; i < PAGE_TENANTS && next !== null; i += 1) {
      if (await isOutdated(reader, next, inUse)) outdated.push(next);
      next = await tenantAfter(reader, next);
    }
    return { outdated, next };
  });
  const tenants: string[] = [];
  for (const tenant of outdated) if (await signAgain({ store, guard }, tenant)) tenants.push(tenant);
  return { tenants, next };
}

async function isOutdated(reader: Reader, tenant: string, inUse: readonly string[]): Promise<boolean> {
  try {
    const { size, root, note } = await readLog(reader, tenant);
    if (size === 0 || (note !== null && openCheckpoint(note, inUse) !== null)) return false;
    const computed = await fromTree(tenant, treeRoot(tilesOf(reader, tenantKeys(tenant)), size));
    return isSameHash(computed, root);
  } catch (error) {
    if (isOfOneLog(error)) return false;
    throw error;
  }
}

/** Safe to repeat: the second signature is the same. False: this service has no key. */
async function signAgain(
  { store, guard }: Pick<AuditLogging, "store" | "guard">,
  tenant: string,
): Promise<boolean> {
  const { value } = await store.transact({ ...LOG_WRITE, label: "sign_log" }, async (tx) => {
    await guard(tx);
    const log = await readLog(tx, tenant);
    const note = signLog(tx, { origin: logOrigin(tenant), size: log.size, root: log.root });
    if (note === null || note === log.note) return false;
    writeLog(tx, tenant, { ...log, note });
    return true;
  });
  return value;
}
