/**
 * The stored form of the audit logs: one Merkle tree for each tenant, whose leaves are the entries of all its chains,
 * and the number of each entry in it.
 */

import { EMPTY_ROOT } from "../../integrity/merkle/hashes.ts";
import { DamagedTree, type TilePlace, type TileSource } from "../../integrity/merkle/tree.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, decodeChecked, encode, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { parseSeq, systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";

/** The log of a tenant. */
export interface AuditLog {
  readonly size: number;
  readonly root: Uint8Array;
  /** The signed checkpoint of this size. null: it was not signed, because the service had no key. */
  readonly note: string | null;
  /** When this checkpoint was made. null: the log is empty. */
  readonly at: string | null;
  /** When the log began, or was first continued by a version that states it. Absent: by an earlier version alone. */
  readonly began_at?: string;
}

const EMPTY: AuditLog = { size: 0, root: EMPTY_ROOT, note: null, at: null };

/** Throws CORRUPT for a damaged record, and for a lost one: a new log would contradict its earlier checkpoints. */
export async function readLog(reader: Reader, tenant: string): Promise<AuditLog> {
  const keys = tenantKeys(tenant);
  const value = await reader.get(keys.log());
  if (value === undefined) {
    if ((await reader.get(keys.logTile(0, 0))) !== undefined) throw damagedLog(tenant);
    return EMPTY;
  }
  try {
    return decodeChecked<AuditLog>(value);
  } catch (cause) {
    throw damagedLog(tenant, cause);
  }
}

export function writeLog(tx: Tx, tenant: string, log: AuditLog): void {
  tx.set(tenantKeys(tenant).log(), encodeChecked(log));
}

export function damagedLog(tenant: string, cause?: unknown): FleetError {
  return new FleetError("CORRUPT", "the audit log is damaged", { details: { tenant }, cause });
}

/** What is computed from the tiles of a tenant. Throws CORRUPT when one of them is damaged. */
export async function fromTree<T>(tenant: string, computed: Promise<T>): Promise<T> {
  try {
    return await computed;
  } catch (error) {
    throw error instanceof DamagedTree ? damagedLog(tenant, error) : error;
  }
}

/** Whether the failure is of one tenant's records, so that the logs of the others can continue. */
export function isOfOneLog(error: unknown): error is FleetError {
  return error instanceof FleetError && (error.code === "CORRUPT" || error.code === "UNSUPPORTED_VERSION");
}

export function encodeTile(bytes: Uint8Array): Bytes {
  return encodeChecked(bytes);
}

/** A damaged tile counts as a lost one. */
export function tilesOf(reader: Reader, keys: TenantKeys): TileSource {
  return async ({ level, n }: TilePlace) => {
    const value = await reader.get(keys.logTile(level, n));
    try {
      return value === undefined ? undefined : decodeChecked<Uint8Array>(value);
    } catch {
      return undefined;
    }
  };
}

/** `index` null: the entry has no leaf, because it is damaged. */
export function encodePlace(index: number | null): Bytes {
  return encode(index);
}

/**
 * The number of an entry in the log. `task` null: the chain of the tenant. null: it is not in the log; up to the last
 * place of its chain that means that it was damaged.
 */
export async function readPlace(
  reader: Reader,
  keys: TenantKeys,
  { task, seq }: { readonly task: string | null; readonly seq: number },
): Promise<number | null> {
  const value = await reader.get(keys.logPlace(task, seq));
  return value === undefined ? null : decode<number | null>(value);
}

/** The newest entry of a chain that has a place; 0: there is none. */
export async function lastPlaced(reader: Reader, keys: TenantKeys, task: string | null): Promise<number> {
  const { rows } = await reader.getRange(keys.logPlaces(task), { limit: 1, reverse: true });
  return rows[0] === undefined ? 0 : parseSeq(rows[0].key);
}

/** The position of the job that appends to the logs of all tenants. */
export interface LogPosition {
  /** The key of the last row of the feed that was followed. null: there is none. */
  readonly cursor: Bytes | null;
  /** Grows with every step, so that a step that another instance overtook is not written. */
  readonly steps: number;
  /** The entries in all logs. */
  readonly entries: number;
}

const START: LogPosition = { cursor: null, steps: 0, entries: 0 };

const positionKey = (): Bytes => systemKeys.meta("audit_log");

/** A damaged record counts as the start: the numbers of the entries in the log decide what is appended. */
export async function readLogPosition(reader: Reader): Promise<LogPosition> {
  const value = await reader.get(positionKey());
  if (value === undefined) return START;
  try {
    return decodeChecked<LogPosition>(value);
  } catch (error) {
    if (error instanceof UnreadableValue) return START;
    throw error;
  }
}

export function writeLogPosition(tx: Tx, position: LogPosition): void {
  tx.set(positionKey(), encodeChecked(position));
}
