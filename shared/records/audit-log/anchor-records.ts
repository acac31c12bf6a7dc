/** The stored form of the anchors of a log, by target and size. The anchor itself is outside the store. */
import type { AnchorTarget } from "../../protocol/audit-anchors.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, isDamage } from "../kv/codec.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";

export interface MadeAnchor {
  /** When it was anchored, ISO 8601. */
  readonly at: string;
  readonly checkpoint: string;
  /** The response of a time-stamp authority. */
  readonly token?: Uint8Array;
  /** The address of an object. */
  readonly object?: string;
  readonly retained_until?: string;
}

export interface StoredAnchor extends MadeAnchor {
  readonly size: number;
}

/** Of a folder, which gets every checkpoint, the store keeps the newest anchor only. The folder has all of them. */
const KEEPS_NEWEST: ReadonlySet<AnchorTarget> = new Set(["folder"]);

/** Removes anchors of larger checkpoints: the log has none, so an edit of the store has made them. */
export function writeAnchor(
  tx: Tx,
  { tenant, target }: AnchorPlace,
  { size, ...anchor }: StoredAnchor,
): void {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.logAnchors(target);
  tx.clearRange({ begin: KEEPS_NEWEST.has(target) ? begin : keys.logAnchor(target, size + 1), end });
  tx.set(keys.logAnchor(target, size), encodeChecked(anchor satisfies MadeAnchor));
}

export interface AnchorPlace {
  readonly tenant: string;
  readonly target: AnchorTarget;
}

/** The newest anchors of checkpoints that are smaller than `beforeSize`. Throws CORRUPT. */
export async function readAnchors(
  reader: Reader,
  { tenant, target }: AnchorPlace,
  { beforeSize, limit }: { readonly beforeSize: number | undefined; readonly limit: number },
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
    return { size: parseSeq(key), ...decodeChecked<MadeAnchor>(value) };
  } catch (cause) {
    if (!isDamage(cause)) throw cause;
    throw new FleetError("CORRUPT", "the record of an anchor is damaged", { details: { tenant }, cause });
  }
}

/** null: there is none, or its record is damaged. Another anchor does no harm. */
export async function newestAnchor(reader: Reader, place: AnchorPlace): Promise<StoredAnchor | null> {
  try {
    const { anchors } = await readAnchors(reader, place, { beforeSize: undefined, limit: 1 });
    return anchors[0] ?? null;
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return null;
    throw error;
  }
}
