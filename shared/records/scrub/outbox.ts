/**
 * Verifies the outbox: each waiting event and offer was committed together with a transition of its task.
 * Both have the stamp of the same transaction, so an inserted message has none.
 */
import { isToken } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { OFFER_TYPE } from "../../protocol/offer.ts";
import type { Bytes } from "../../store/store.ts";
import { decode, readable } from "../kv/codec.ts";
import { after, feedAtStampOf, systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { ofTask, type ScrubStep, TaskScrub } from "./scrub-reader.ts";
import { isEventOf, readEntry } from "./trail/entries.ts";

/** The number of entries in one read. */
const SLICE = 32;

export interface OutboxAt {
  readonly partition: number;
  /** The key of the last verified entry of the partition; null: there is none. */
  readonly after: Bytes | null;
}

export const OUTBOX_START: OutboxAt = { partition: 0, after: null };

/** Returns where the next call continues; null: the outbox is verified. */
export async function verifyOutbox(
  step: ScrubStep,
  { partition, after: from }: OutboxAt,
): Promise<OutboxAt | null> {
  const { begin, end } = systemKeys.outboxRange(partition);
  const range = { begin: from === null ? begin : after(from), end };
  const { rows, more } = await step.reader.getRange(range, { limit: SLICE });
  for (const { key, value } of rows) await verifyMessage(step, key, value);
  if (more) return { partition, after: rows.at(-1)?.key ?? null };
  return partition + 1 < LIMITS.outbox_partition_count ? { partition: partition + 1, after: null } : null;
}

/** The members of an event or offer that the scrub compares. */
export interface AuditedMessage {
  readonly tenant: string;
  readonly subject: string;
  readonly id: string;
  readonly type: string;
  readonly time: string;
  readonly sequence?: number;
  readonly audithash?: string;
}

async function verifyMessage(step: ScrubStep, key: Bytes, value: Bytes): Promise<void> {
  // The relay fails at an unreadable entry, and operators notice.
  const message = readMessage(readable(() => decode<string>(value)) ?? "null");
  if (message === null) return;
  const { tenant, subject: task, id, type } = message;
  const { rows } = await step.reader.getRange(feedAtStampOf(key), { limit: SLICE });
  const isOfTransaction = rows.some(({ value: entry }) => {
    const [ofTenant, of] = readable(() => decode<[string, string]>(entry)) ?? [];
    return ofTenant === tenant && of === task;
  });
  const isAudited = type === OFFER_TYPE || (await isOfEntry(step, message));
  if (isOfTransaction && isAudited) return;
  const scrub = new TaskScrub(step, tenant, task, { canMark: false, found: 0 });
  scrub.note(ofTask("event", `message ${id} waits to be published, and no transition of the task made it`));
}

/** null: the text is no event and no offer. */
export function readMessage(text: string): AuditedMessage | null {
  try {
    const message = JSON.parse(text) as AuditedMessage | null;
    return message !== null && isToken(message.tenant) && isToken(message.subject) ? message : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

async function isOfEntry(
  { reader }: ScrubStep,
  { tenant, subject, sequence, time, audithash }: AuditedMessage,
): Promise<boolean> {
  if (!Number.isSafeInteger(sequence)) return false;
  const value = await reader.get(tenantKeys(tenant).audit(subject, Number(sequence)));
  const entry = readEntry(value);
  // A damaged entry is found with its trail.
  return (value !== undefined && entry === null) || isEventOf(entry, { time, audithash });
}
