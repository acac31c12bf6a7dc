/** The stored form of the anchors of a log, by target and size. The anchor itself is outside the store. */
import type { AnchorTarget } from "../../protocol/audit-anchors.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, isDamage } from "../kv/codec.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";

export interface MadeAnchor {
  /** When it was anchored, ISO 8601: by the clock of the target. */
  readonly at: string;
  readonly checkpoint: string;
  /** The response of a time-stamp authority. */
  readonly token?: Uint8Array;
  /** Whether the certificate of that authority led to a trusted one. */
  readonly verified?: boolean;
  /** The address of an object. */
  readonly object?: string;
  readonly retained_until?: string;
}

export interface StoredAnchor extends MadeAnchor {
  readonly size: number;
  /** When it was recorded, by the clock of the fleet, from which the next interval counts. */
  readonly recorded_at: string;
}

/** Of a folder, which gets every checkpoint, the store keeps the newest anchor only. The folder has all of them. */
const KEEPS_NEWEST: ReadonlySet<AnchorTarget> = new Set(["folder"]);

/** Removes no other anchor of a time-stamp or an object: the store may have the only copy of the proof that a log was longer. */
export function writeAnchor(
  tx: Tx,
  { tenant, target }: AnchorPlace,
  { size, ...anchor }: StoredAnchor,
): void {
  const keys = tenantKeys(tenant);
  if (KEEPS_NEWEST.has(target)) tx.clearRange(keys.logAnchors(target));
  tx.set(keys.logAnchor(target, size), encodeChecked(anchor satisfies Omit<StoredAnchor, "size">));
}

export interface AnchorPlace {
  readonly tenant: string;
  readonly target: AnchorTarget;
}

/** The newest anchors of checkpoints that are smaller than `beforeSize`. Throws CORRUPT. */
export async function readAnchors(
  reader: Reader,
  { tenant, target }: AnchorPlace,
  { beforeSize, limit }: { readonly beforeSize?: number | undefined; readonly limit: number },
): Promise<{ readonly anchors: readonly StoredAnchor[]; readonly more: boolean }> {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.logAnchors(target);
  const range = { begin, end: beforeSize === undefined ? end : keys.logAnchor(target, beforeSize) };
  const { rows } = await reader.getRange(range, { limit: limit + 1, reverse: true });
  const anchors = rows.slice(0, limit).map(({ key, value }) => anchorIn(tenant, key, value));
  return { anchors, more: rows.length > limit };
}

function anchorIn(tenant: string, key: Bytes, value: Bytes): StoredAnchor {
  try {
    return { size: parseSeq(key), ...decodeChecked<Omit<StoredAnchor, "size">>(value) };
  } catch (cause) {
    if (!isDamage(cause)) throw cause;
    throw new FleetError("CORRUPT", "the record of an anchor is damaged", { details: { tenant }, cause });
  }
}

/** The newest anchors up to this size, and whether there is one of a longer log. */
export interface LastAnchors {
  /** null: there is none, or its record is damaged. Another anchor does no harm. */
  readonly last: StoredAnchor | null;
  readonly isCut: boolean;
}

export async function lastAnchors(reader: Reader, place: AnchorPlace, size: number): Promise<LastAnchors> {
  const newest = async (beforeSize?: number): Promise<StoredAnchor | null> => {
    try {
      const { anchors } = await readAnchors(reader, place, { beforeSize, limit: 1 });
      return anchors[0] ?? null;
    } catch (error) {
      if (error instanceof FleetError && error.code === "CORRUPT") return null;
      throw error;
    }
  };
  const last = await newest();
  const isCut = last !== null && last.size > size;
  return { last: isCut ? await newest(size + 1) : last, isCut };
}
