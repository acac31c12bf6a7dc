/**
 * The outbox: events and handoff offers wait here from the commit of their transaction until the relay has
 * published them. It is partitioned by task, so that the events of one task keep their order while partitions
 * are published in parallel. Each event also increments its partition's wake-up counter (`bell`). The counter
 * only wakes the relay early; polling would find the entry too.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { FleetEvent } from "../../protocol/events.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { OFFER_TYPE, type Offer } from "../../protocol/offer.ts";
import { redactedReason } from "../../protocol/redaction.ts";
import { type KeyWakeOptions, wakeOnChange } from "../../store/key-wake.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { readCount } from "../kv/counters.ts";
import { systemKeys } from "../kv/keyspace.ts";

export interface OutboxEntry {
  readonly key: Bytes;
  readonly event: FleetEvent | Offer;
  /** The stored JSON, which is published unchanged. */
  readonly json: string;
}

export type OfferEntry = OutboxEntry & { readonly event: Offer };

export function isOffer(entry: OutboxEntry): entry is OfferEntry {
  return entry.event.type === OFFER_TYPE;
}

/** The partition of a task: FNV-1a over the tenant and the task, stable across processes and releases. */
export function partitionOf(tenant: string, task: string): number {
  let hash = 0x811c9dc5;
  for (const char of `${tenant}/${task}`) {
    hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193) >>> 0;
  }
  return hash % LIMITS.outbox_partition_count;
}

const NO_SUFFIX = new Uint8Array(0);

export function appendEvent(tx: Tx, incarnation: number, event: FleetEvent): void {
  tx.addI64(systemKeys.wakeUp(partitionOf(event.tenant, event.subject)), 1n);
  append(tx, incarnation, event, JSON.stringify(withoutSecrets(event)));
}

/**
 * Call it after {@link appendEvent} of the transition that makes the offer. It leaves the wake-up counter
 * alone, because the counters count transitions. Throws TOO_LARGE for an offer that does not fit into one
 * value of the store. The offer is published as it was made, without secrets, because its digest is recorded.
 */
export function appendOffer(tx: Tx, incarnation: number, offer: Offer): void {
  const json = JSON.stringify(offer);
  const promptBytes = Buffer.byteLength(offer.data.prompt);
  const bytes = Buffer.byteLength(json);
  if (promptBytes > LIMITS.prompt_bytes_max || bytes > LIMITS.offer_bytes_max) {
    throw new FleetError("TOO_LARGE", "the prompt is too large for an offer", {
      details: { prompt_bytes: promptBytes, offer_bytes: bytes },
    });
  }
  append(tx, incarnation, offer, json);
}

/** An agent or operator may have written the reason. */
function withoutSecrets(event: FleetEvent): FleetEvent {
  const { reason } = event.data as { readonly reason?: string | null };
  if (!reason) return event;
  return { ...event, data: { ...event.data, reason: redactedReason(reason) } } as FleetEvent;
}

function append(tx: Tx, incarnation: number, message: FleetEvent | Offer, json: string): void {
  const { tenant, subject } = message;
  const prefix = systemKeys.outboxPrefix(partitionOf(tenant, subject), incarnation);
  tx.setStampedKey(prefix, NO_SUFFIX, encode(json));
}

export function outboxEntry(key: Bytes, value: Bytes): OutboxEntry {
  const json = decode<string>(value);
  return { key, event: JSON.parse(json) as FleetEvent | Offer, json };
}

/** The oldest entries of a partition, in commit order. */
export async function readOutbox(
  reader: Reader,
  partition: number,
  limit: number,
): Promise<{ entries: OutboxEntry[]; more: boolean }> {
  const { rows, more } = await reader.getRange(systemKeys.outboxRange(partition), { limit });
  return { entries: rows.map(({ key, value }) => outboxEntry(key, value)), more };
}

const WAKE_KEYS = Array.from({ length: LIMITS.outbox_partition_count }, (_, partition) =>
  systemKeys.wakeUp(partition),
);

/** Wakes at every transition of any task. Resolves when the signal aborts; never rejects. */
export async function wakeOnTransitions(options: Omit<KeyWakeOptions, "key">): Promise<void> {
  await Promise.all(WAKE_KEYS.map((key) => wakeOnChange({ ...options, key })));
}

/** The number of transitions of all tasks so far: each increments one wake-up counter by one. */
export async function readTransitions(reader: Reader): Promise<number> {
  const values = await reader.getMany(WAKE_KEYS);
  return values.reduce(
    (sum, value) => sum + (value === undefined ? 0 : Number(Buffer.from(value).readBigInt64LE())),
    0,
  );
}

/**
 * The number of waiting events and the time of the oldest one. The number is the difference of two counters,
 * so its cost does not depend on the backlog. After a relay has cleared a batch twice, it is too small until
 * the outbox is empty.
 */
export async function outboxBacklog(reader: Reader): Promise<{ depth: number; oldestMs: number | null }> {
  let oldestMs: number | null = null;
  for (let partition = 0; partition < LIMITS.outbox_partition_count; partition += 1) {
    const { rows } = await reader.getRange(systemKeys.outboxRange(partition), { limit: 1 });
    const first = rows[0];
    if (!first) continue;
    const at = Date.parse(outboxEntry(first.key, first.value).event.time);
    oldestMs = oldestMs === null ? at : Math.min(oldestMs, at);
  }
  if (oldestMs === null) return { depth: 0, oldestMs };
  const waiting = (await readTransitions(reader)) - (await readCount(reader, "events"));
  return { depth: Math.max(1, waiting), oldestMs };
}

/** Clears published entries. Clearing an entry that is already cleared has no effect on it. */
export function clearPublished(tx: Tx, entries: readonly OutboxEntry[]): void {
  for (const { key } of entries) tx.clear(key);
  tx.addI64(systemKeys.count("events"), BigInt(entries.filter((entry) => !isOffer(entry)).length));
}
