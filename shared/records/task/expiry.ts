/**
 * How records of commands end. They are kept in buckets, one for each hour in which they may be forgotten, and cleared bucket by bucket,
 * the oldest first. Before the first record of a bucket is cleared, the same transaction writes down the time up to which commands may
 * have been forgotten from then on; a command whose id is of that time or older is refused. So a command either finds its record
 * or is refused: however late it comes and whatever the clocks did, it is not applied a second time (guarantee 2).
 *
 * The line follows what was really cleared, not a clock: commands that waited while the store was away are as young after it as
 * before, and a clock that jumps ahead makes at most one bucket a call forgotten too early.
 */
import { FleetError, invalid } from "../../protocol/errors.ts";
import { idTime } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { decode, encodeChecked } from "../kv/codec.ts";
import { parseExpiry, systemKeys, tenantKeys } from "../kv/keyspace.ts";

const HOUR_MS = 3_600_000;

/** Milliseconds since the epoch: no command with a later id was ever forgotten. */
export const forgottenKey = (): Bytes => systemKeys.meta("forgotten");

function decodeForgotten(value: Bytes | undefined): number {
  return value === undefined ? Number.NEGATIVE_INFINITY : decode<number>(value);
}

/** Puts a command's record into the bucket of the hour in which it may be forgotten. */
export function expire(tx: Tx, record: { tenant: string; command: string; nowMs: number }): void {
  const hour = Math.ceil((record.nowMs + LIMITS.idempotency_ms) / HOUR_MS);
  tx.set(systemKeys.expiry(hour, record.tenant, record.command), new Uint8Array(0));
}

/** The latest id that a record of this bucket can have: it was committed so long before, and was not further ahead of the clock. */
function latestIdIn(hour: number): number {
  return hour * HOUR_MS - LIMITS.idempotency_ms + LIMITS.id_ahead_ms_max;
}

/**
 * For a command without a record: throws EXPIRED when it may have had one, INVALID when its id lies ahead of the clock, since the
 * line above which nothing is forgotten holds only for ids that were not.
 */
export function requireRemembered(commandId: string, forgotten: Bytes | undefined, nowMs: number): void {
  const time = idTime(commandId);
  if (time > nowMs + LIMITS.id_ahead_ms_max) {
    throw invalid("command_id", "a UUIDv7 whose time is not ahead of the writer's clock", commandId);
  }
  const through = decodeForgotten(forgotten);
  if (time > through) return;
  const since = new Date(through).toISOString();
  throw new FleetError("EXPIRED", "the command is older than what is remembered of commands", {
    fields: [{ path: "command_id", expected: `a UUIDv7 made after ${since}`, got: commandId }],
    details: { made_at: new Date(time).toISOString(), remembered_since: since },
  });
}

/**
 * Clears up to `limit` records of the oldest bucket whose hour has passed. `more`: there may be further ones in this bucket; the
 * next bucket is another call's, to be made later, so that a clock that is wrong for minutes cannot make everything forgotten.
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
  // Written once a bucket: every command reads it, and would have to be tried again after each write.
  if (decodeForgotten(await tx.get(forgottenKey())) < through) tx.set(forgottenKey(), encodeChecked(through));
  for (const { key, tenant, command } of bucket) {
    tx.clear(tenantKeys(tenant).command(command));
    tx.clear(key);
  }
  return { cleared: bucket.length, more: bucket.length === limit };
}
