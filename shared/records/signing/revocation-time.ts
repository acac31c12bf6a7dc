/** From when on the revocation of a key counts, unless the operator names an earlier time. */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { countsAtOnce, type RevocationReason } from "../../protocol/signing-keys.ts";
import type { Reader } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import type { StoredSigningKey } from "./key-record.ts";

interface RevocationTimes {
  /** The time of the entry. */
  readonly atMs: number;
  /** Signatures of a later time are rejected. */
  readonly revokedMs: number;
}

/**
 * A key that others may have is revoked at the time of the entry. No service commits with the key after that transaction, because each commit reads the record
 * of its key. Two times make sure that the time of the entry is also after those of the commits before it:
 *
 * - The use of the key ends in an earlier transaction (`key_retire`), so a commit in flight cannot take its time after the entry, and be committed before it.
 * - The holder has stated the time of that end by its own clock, which may be ahead of this one. It is the clock of the signatures, so the entry is not
 *   earlier, as far as clocks may differ. A later end counts as the latest possible one: it is that of a holder whose clock is ahead and which follows one
 *   that is ahead of its own, or a thief has stated it, who wins no more than with a possible end.
 *
 * A key that was replaced as planned counts 30 s longer, for services with a fast clock that share it.
 */
export async function revocationMs(
  reader: Reader,
  record: StoredSigningKey,
  { reason, nowMs }: { readonly reason: RevocationReason; readonly nowMs: number },
): Promise<RevocationTimes> {
  if (!countsAtOnce(reason)) return { atMs: nowMs, revokedMs: nowMs + LIMITS.clock_skew_ms_max };
  const { not_after: notAfter } = record;
  // A retirement counts as much later as clocks may differ.
  const endedMs =
    notAfter === null ? Number.NEGATIVE_INFINITY : Date.parse(notAfter) - LIMITS.clock_skew_ms_max;
  const atMs = notBeforeEnd(nowMs, endedMs);
  const beforeMs = await revokedBeforeMs(reader, record);
  // The entry of the first revocation did not follow the clock of the holder, if its reason was another one.
  return { atMs, revokedMs: beforeMs === null ? atMs : Math.min(atMs, notBeforeEnd(beforeMs, endedMs)) };
}

/** The time of a revocation at `clockMs` of a key whose use has ended at `endedMs` by the clock of its holder. An end that cannot be read does not count. */
function notBeforeEnd(clockMs: number, endedMs: number): number {
  return endedMs > clockMs ? Math.min(endedMs, clockMs + LIMITS.clock_skew_ms_max) : clockMs;
}

/** The time of the entry that has revoked the key first, perhaps with an allowance. null: there is none that can be read. */
async function revokedBeforeMs(reader: Reader, { entries }: StoredSigningKey): Promise<number | null> {
  const { key_revoke: last, key_revoke_first: first = last } = entries;
  if (first === undefined) return null;
  const value = await reader.get(tenantKeys(DEFAULT_TENANT).tenantAudit(first));
  const atMs = Date.parse(String(readEntry(value)?.facts?.at));
  return Number.isNaN(atMs) ? null : atMs;
}
