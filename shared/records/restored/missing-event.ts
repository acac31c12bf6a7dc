/**
 * Whether a store is an older copy of itself. An event is published after its transition is committed, so the store has the entry of every
 * event on the bus. A copy that a tool of the engine has restored lacks those of the time after the backup, until `fleet restore` tells the store
 * of its restore. Its services would give out fences and ids of events that agents and consumers know already.
 */
import type { Store } from "../../store/store.ts";
import { decode } from "../kv/codec.ts";
import type { Format } from "../kv/format.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { isNumbered, isOfLostStore } from "../scrub/events.ts";
import { type AuditedMessage, readMessage } from "../scrub/outbox.ts";
import { isEventOf, readEntry } from "../scrub/trail/entries.ts";

const READ_DEADLINE_MS = 5_000;

/** Whether a message is an event with an entry in the trail. */
export function isAuditedEvent(body: Uint8Array): boolean {
  const event = readMessage(Buffer.from(body).toString());
  return event !== null && isNumbered(event);
}

/**
 * The event in a message that was read from the bus before this call, if the store should have its entry and does not. null for the events of
 * a lost store that an operator has named, for those from before the store began, and for a message that is no event.
 */
export async function missingEvent(store: Store, body: Uint8Array): Promise<AuditedMessage | null> {
  const event = readMessage(Buffer.from(body).toString());
  if (event === null || !isNumbered(event)) return null;
  const { tenant, subject, sequence, time } = event;
  return store.read({ label: "missing_event", deadlineMs: READ_DEADLINE_MS }, async (reader) => {
    const keys = [systemKeys.meta("format"), tenantKeys(tenant).audit(subject, sequence)];
    const [format, value] = await reader.getMany(keys);
    const createdAt = format === undefined ? undefined : decode<Format>(format).created_at;
    if (createdAt !== undefined && time < createdAt) return null;
    const entry = readEntry(value);
    // The scrub finds a damaged entry.
    if ((value !== undefined && entry === null) || isEventOf(entry, event)) return null;
    return (await isOfLostStore(reader, event)) ? null : event;
  });
}
