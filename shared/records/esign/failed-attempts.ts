/**
 * Failed attempts to sign: each is an act in the audit chain of the tenant. After a few, all attempts of the caller are refused for a while, without
 * further entries, so that guesses are few and the chain stays readable. The count is in the store, so it holds for all writers and after a crash.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { SigningRefusalReason } from "../../protocol/signing-refusal.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { actOf, appendTenantAudit, type TenantCaller } from "../audit/tenant-audit.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";

const ATTEMPTS = 5;
const WITHIN_MS = 15 * 60_000;

export interface RefusedSigning {
  readonly task: string;
  readonly reason: SigningRefusalReason;
}

/** Throws FORBIDDEN after too many failed attempts. */
export async function requireAttempt(reader: Reader, by: TenantCaller, nowMs: number): Promise<void> {
  const times = await recentFailures(reader, by, nowMs);
  if (times.length < ATTEMPTS) return;
  const until = new Date(times[0]! + WITHIN_MS).toISOString();
  throw new FleetError("FORBIDDEN", "too many attempts to sign have failed", {
    details: { failed: times.length, until },
  });
}

/** False: enough attempts of the caller are recorded. */
export async function recordFailedAttempt(
  tx: Tx,
  by: TenantCaller,
  { task, reason }: RefusedSigning,
  nowMs: number,
): Promise<boolean> {
  const times = await recentFailures(tx, by, nowMs);
  if (times.length >= ATTEMPTS) return false;
  tx.set(tenantKeys(by.tenant).signFailures(by.caller), encodeChecked([...times, nowMs]));
  await appendTenantAudit(tx, by.tenant, [actOf(by, "sign_refuse", nowMs, { task, reason })]);
  return true;
}

async function recentFailures(
  reader: Reader,
  { tenant, caller }: TenantCaller,
  nowMs: number,
): Promise<readonly number[]> {
  const value = await reader.get(tenantKeys(tenant).signFailures(caller));
  const times = value === undefined ? [] : decodeChecked<readonly number[]>(value);
  return times.filter((time) => time > nowMs - WITHIN_MS);
}
