/**
 * The outbox: events, and offers of handoffs, wait here from the transaction that made them true until the relay has published them. Partitioned by task,
 * so that one task's events keep their order while many are published at once. Each entry rings its partition's bell; the bell
 * only wakes the relay, which would find the entry by polling too.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { FleetEvent } from "../../protocol/events.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { OFFER_TYPE, type Offer } from "../../protocol/offer.ts";
import { type KeyWakeOptions, wakeOnChange } from "../../store/key-wake.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { readCount } from "../kv/counters.ts";
import { systemKeys } from "../kv/keyspace.ts";

export interface OutboxEntry {
  readonly key: Bytes;
  readonly event: FleetEvent | Offer;
  /** The event as it goes out: the JSON that was stored. */
  readonly json: string;
}

export type OfferEntry = OutboxEntry & { readonly event: Offer };

export function isOffer(entry: OutboxEntry): entry is OfferEntry {
  return entry.event.type === OFFER_TYPE;
}

/** FNV-1a over the tenant and the task; stable across processes and releases. */
export function partitionOf(tenant: string, task: string): number {
  let hash = 0x811c9dc5;
  for (const char of `${tenant}/${task}`) {
    hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193) >>> 0;
  }
  return hash % LIMITS.outbox_partition_count;
}

const NO_SUFFIX = new Uint8Array(0);

export function appendEvent(tx: Tx, incarnation: number, event: FleetEvent): void {
  tx.addI64(systemKeys.bell(partitionOf(event.tenant, event.subject)), 1n);
  append(tx, incarnation, event, JSON.stringify(event));
}

/**
 * Behind the event of the transition that makes the offer, which rings the bell for both: bells count transitions. Throws TOO_LARGE
 * when it would not fit into one value of the store.
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

function append(tx: Tx, incarnation: number, of: FleetEvent | Offer, json: string): void {
  const prefix = systemKeys.outboxPrefix(partitionOf(of.tenant, of.subject), incarnation);
  tx.setStampedKey(prefix, NO_SUFFIX, encode(json));
}

function entry(key: Bytes, value: Bytes): OutboxEntry {
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
  return { entries: rows.map(({ key, value }) => entry(key, value)), more };
}

const BELLS = Array.from({ length: LIMITS.outbox_partition_count }, (_, partition) =>
  systemKeys.bell(partition),
);

/** Wakes at every transition of any task. Resolves when the signal aborts; never rejects. */
export async function wakeOnBells(options: Omit<KeyWakeOptions, "key">): Promise<void> {
  await Promise.all(BELLS.map((key) => wakeOnChange({ ...options, key })));
}

/** Transitions so far, of all tasks: each rang one bell once. */
export async function readTransitions(reader: Reader): Promise<number> {
  const values = await reader.getMany(BELLS);
  return values.reduce(
    (sum, value) => sum + (value === undefined ? 0 : Number(Buffer.from(value).readBigInt64LE())),
    0,
  );
}

/**
 * Events that wait, and the oldest one's time. The number is the difference of two counters, so it costs the same for any backlog;
 * a relay that cleared one batch twice makes it too small, until the outbox is empty.
 */
export async function outboxBacklog(reader: Reader): Promise<{ depth: number; oldestMs: number | null }> {
  let oldestMs: number | null = null;
  for (let partition = 0; partition < LIMITS.outbox_partition_count; partition += 1) {
    const { rows } = await reader.getRange(systemKeys.outboxRange(partition), { limit: 1 });
    const first = rows[0];
    if (!first) continue;
    const at = Date.parse(entry(first.key, first.value).event.time);
    oldestMs = oldestMs === null ? at : Math.min(oldestMs, at);
  }
  if (oldestMs === null) return { depth: 0, oldestMs };
  const waiting = (await readTransitions(reader)) - (await readCount(reader, "events"));
  return { depth: Math.max(1, waiting), oldestMs };
}

/** Forgets published entries; clearing what is gone already changes nothing. */
export function clearPublished(tx: Tx, entries: readonly OutboxEntry[]): void {
  for (const { key } of entries) tx.clear(key);
  tx.addI64(systemKeys.count("events"), BigInt(entries.filter((entry) => !isOffer(entry)).length));
}
