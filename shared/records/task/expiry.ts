/**
 * The expiry of idempotency records. They are indexed in buckets, one for each hour in which they may be
 * forgotten, and cleared bucket by bucket, the oldest first. The transaction that clears the first record of
 * a bucket also stores the time up to which commands may now be forgotten; a command whose id is of that time
 * or older is refused. So a late command either finds its record or is refused, even if clocks were wrong,
 * and is never applied a second time (guarantee 2).
 *
 * That time follows the cleared records, not a clock: commands that waited while the store was unavailable do
 * not age by the wait, and a clock that jumps ahead makes each call forget at most one bucket too early.
 */
import { FleetError, invalid } from "../../protocol/errors.ts";
import { idTime } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { decode, encodeChecked } from "../kv/codec.ts";
import { parseExpiry } from "../kv/due-index.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";

const HOUR_MS = 3_600_000;

/** The key of a time in milliseconds since the epoch: no command with a later id was ever forgotten. */
export const forgottenKey = (): Bytes => systemKeys.meta("forgotten");

function decodeForgotten(value: Bytes | undefined): number {
  return value === undefined ? Number.NEGATIVE_INFINITY : decode<number>(value);
}

function hourOf(nowMs: number): number {
  return Math.ceil((nowMs + LIMITS.idempotency_ms) / HOUR_MS);
}

/** Puts a command's record into the bucket of the hour in which it may be forgotten. */
export function expire(tx: Tx, record: { tenant: string; command: string; nowMs: number }): void {
  const hour = hourOf(record.nowMs);
  tx.set(systemKeys.expiry(hour, record.tenant, record.command), new Uint8Array(0));
}

/**
 * The latest time of an id in this bucket: the time of its commit, and the largest lead over the clock that
 * an id may have.
 */
function latestIdIn(hour: number): number {
  return hour * HOUR_MS - LIMITS.idempotency_ms + LIMITS.id_ahead_ms_max;
}

/** Whether the record of a command that was applied at `appliedMs` still exists. */
export function isKept(appliedMs: number, forgotten: Bytes | undefined): boolean {
  return latestIdIn(hourOf(appliedMs)) > decodeForgotten(forgotten);
}

/**
 * For a command without a record: throws EXPIRED when it may have had one, and INVALID when the time of its
 * id is too far ahead of the clock, since the stored time holds only for ids that are not.
 */
export function requireRemembered(commandId: string, forgotten: Bytes | undefined, nowMs: number): void {
  const time = idTime(commandId);
  if (time > nowMs + LIMITS.id_ahead_ms_max) {
    throw invalid("command_id", "a UUIDv7 whose time is not ahead of the writer's clock", commandId);
  }
  const through = decodeForgotten(forgotten);
  if (time > through) return;
  const since = new Date(through).toISOString();
  throw new FleetError("EXPIRED", "the command is older than the idempotency records", {
    fields: [{ path: "command_id", expected: `a UUIDv7 made after ${since}`, got: commandId }],
    details: { made_at: new Date(time).toISOString(), remembered_since: since },
  });
}

/**
 * Clears up to `limit` records of the oldest bucket whose hour has passed. `more`: this bucket may have
 * further ones. The next bucket needs a later call, so that a clock that is wrong for some minutes cannot
 * clear all records.
 */
export async function clearExpired(
  tx: Tx,
  nowMs: number,
  limit: number,
): Promise<{ cleared: number; more: boolean }> {
  const { rows } = await tx.getRange(systemKeys.expiredBefore(Math.floor(nowMs / HOUR_MS)), { limit });
  const records = rows.map(({ key }) => ({ key, ...parseExpiry(key) }));
  const hour = records[0]?.hour;
  if (hour === undefined) return { cleared: 0, more: false };
  const bucket = records.filter((record) => record.hour === hour);
  const through = latestIdIn(hour);
  // Written once for each bucket: every command reads it, so each write makes concurrent commands retry.
  if (decodeForgotten(await tx.get(forgottenKey())) < through) tx.set(forgottenKey(), encodeChecked(through));
  for (const { key, tenant, command } of bucket) {
    tx.clear(tenantKeys(tenant).command(command));
    tx.clear(key);
  }
  return { cleared: bucket.length, more: bucket.length === limit };
}
