/** Appends entries to the log of one tenant: the tree first, on a snapshot, and then its rows in a transaction. */
import { isSameHash } from "../../integrity/merkle/hashes.ts";
import { type GrownTree, growTree } from "../../integrity/merkle/tree.ts";
import { logOrigin } from "../../protocol/audit-log.ts";
import type { FleetError } from "../../protocol/errors.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { signLog } from "../signing/commit-signing.ts";
import type { LoggedEntry } from "./log-entries.ts";
import {
  type AuditLog,
  damagedLog,
  encodePlace,
  encodeTile,
  fromTree,
  isOfOneLog,
  readLog,
  tilesOf,
  writeLog,
} from "./log-records.ts";

export interface GrownLog extends GrownTree {
  readonly tenant: string;
  readonly first: number;
  /** When the log began. null: it begins now. */
  readonly beganAt: string | null;
  readonly entries: readonly LoggedEntry[];
}

/** Throws CORRUPT for a damaged log: a checkpoint over changed tiles would contradict the earlier ones. */
async function growLog(reader: Reader, tenant: string, entries: readonly LoggedEntry[]): Promise<GrownLog> {
  const { size, root, at, began_at: beganAt = at } = await readLog(reader, tenant);
  const leaves = entries.flatMap(({ leaf }) => leaf ?? []);
  const tree = await fromTree(tenant, growTree(tilesOf(reader, tenantKeys(tenant)), size, leaves));
  if (!isSameHash(tree.rootBefore, root)) throw damagedLog(tenant);
  return { ...tree, tenant, first: size, beganAt, entries };
}

/** Returns the error of a log that cannot be written, so that it stops no other one. */
export async function growOrFail(
  reader: Reader,
  tenant: string,
  entries: readonly LoggedEntry[],
): Promise<GrownLog | FleetError> {
  try {
    return await growLog(reader, tenant, entries);
  } catch (error) {
    if (isOfOneLog(error)) return error;
    throw error;
  }
}

export function writeGrown(
  tx: Tx,
  { tenant, first, beganAt, entries, size, root, tiles }: GrownLog,
  at: string,
): void {
  const keys = tenantKeys(tenant);
  for (const { level, n, bytes } of tiles) tx.set(keys.logTile(level, n), encodeTile(bytes));
  let index = first;
  for (const { task, seq, leaf } of entries) {
    tx.set(keys.logPlace(task, seq), encodePlace(leaf === null ? null : index));
    if (leaf !== null) index += 1;
  }
  if (size === first) return;
  const note = signLog(tx, { origin: logOrigin(tenant), size, root });
  writeLog(tx, tenant, { size, root, note, at, began_at: beganAt ?? at } satisfies AuditLog);
}

export const leavesIn = (entries: readonly LoggedEntry[]): number =>
  entries.reduce((sum, { leaf }) => sum + (leaf === null ? 0 : 1), 0);
