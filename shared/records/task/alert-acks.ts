/**
 * Acknowledgements of alerts. The alerts themselves are in their stream; an acknowledgement is kept as long
 * as the stream may still hold its alert.
 */
import type { AcknowledgedAlert, Acknowledgement } from "../../protocol/alert-queries.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { redact } from "../../protocol/redaction.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { actOf, appendTenantAudit } from "../audit/tenant-audit.ts";
import { decode, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { parseAlertAckExpiry } from "../kv/due-index.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";

const DAY_MS = 86_400_000;

/** null: the alert is not acknowledged. */
export async function readAcks(
  reader: Reader,
  tenant: string,
  alerts: readonly string[],
): Promise<(Acknowledgement | null)[]> {
  const values = await reader.getMany(alerts.map(tenantKeys(tenant).alertAck));
  return values.map(decodeAck);
}

/** A damaged acknowledgement counts as none: operators had better see an alert twice than never. */
function decodeAck(value: Bytes | undefined): Acknowledgement | null {
  if (value === undefined) return null;
  try {
    return decode<Acknowledgement>(value);
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

export interface AlertAcknowledgement {
  readonly tenant: string;
  readonly alerts: readonly string[];
  readonly by: string;
  readonly note: string | null;
  readonly nowMs: number;
}

/**
 * The first acknowledgement of an alert counts and is audited; later ones get it as their answer. A repeated
 * one has no further effect.
 */
export async function acknowledgeAlerts(tx: Tx, o: AlertAcknowledgement): Promise<AcknowledgedAlert[]> {
  const known = await readAcks(tx, o.tenant, o.alerts);
  const own: Acknowledgement = { by: o.by, at: new Date(o.nowMs).toISOString(), note: redactedNote(o.note) };
  // The alert is already in the stream, which deletes it within this time.
  const day = Math.ceil((o.nowMs + LIMITS.alerts_kept_ms) / DAY_MS) + 1;
  const by = { tenant: o.tenant, caller: o.by };
  const fresh = o.alerts.filter((_, i) => (known[i] ?? null) === null);
  const acts = fresh.map((alert_id) => actOf(by, "alert_ack", o.nowMs, { alert_id }));
  await appendTenantAudit(tx, o.tenant, acts);
  return o.alerts.map((alert_id, i) => {
    const first = known[i] ?? null;
    if (first !== null) return { alert_id, acknowledgement: first, already: !isSame(first, own) };
    tx.set(tenantKeys(o.tenant).alertAck(alert_id), encodeChecked(own));
    tx.set(systemKeys.alertAckExpiry(day, o.tenant, alert_id), new Uint8Array(0));
    return { alert_id, acknowledgement: own, already: false };
  });
}

/** The replacement of a secret may be longer than the secret. */
function redactedNote(note: string | null): string | null {
  return note && redact(note).text.slice(0, LIMITS.alert_note_chars_max).toWellFormed();
}

/** True for the caller's own acknowledgement, committed by an attempt whose result was unknown. */
function isSame(one: Acknowledgement, other: Acknowledgement): boolean {
  return one.by === other.by && one.at === other.at && one.note === other.note;
}

/** Clears up to `limit` expired acknowledgements. `more`: there may be further ones. */
export async function clearExpiredAcks(
  tx: Tx,
  nowMs: number,
  limit: number,
): Promise<{ cleared: number; more: boolean }> {
  const { rows } = await tx.getRange(systemKeys.alertAcksExpiredBefore(Math.floor(nowMs / DAY_MS)), {
    limit,
  });
  for (const { key } of rows) {
    const { tenant, alert } = parseAlertAckExpiry(key);
    tx.clear(tenantKeys(tenant).alertAck(alert));
    tx.clear(key);
  }
  return { cleared: rows.length, more: rows.length === limit };
}
