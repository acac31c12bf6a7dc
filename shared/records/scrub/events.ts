/**
 * Compares the event stream with the store: each event has an entry in the trail of its task, at its number
 * and with its hash. So an older copy of the store, a deleted task and a deleted newest entry are found while
 * their events are in the stream. Events are read before the snapshot, so the snapshot has their entries. The events of a
 * store that an operator knows to be lost are no findings: those of a task from before its restoration.
 */
import type { Reader } from "../../store/store.ts";
import { decode, readable } from "../kv/codec.ts";
import type { Format } from "../kv/format.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeHead } from "../task/head.ts";
import { type AuditedMessage, readMessage } from "./outbox.ts";
import { ofTask, type ScrubStep } from "./scrub-reader.ts";
import { isEventOf, readEntry } from "./trail/entries.ts";

/** The number of events in one step. */
const SLICE = 250;

/** The bytes of an event with its entry, roughly. */
const EVENT_BYTES = 1_000;

/**
 * The copy of a backup lacks what was committed after it began, although the time of that may be earlier: a transition states the time at which
 * its transaction began, and its process may have been paused since.
 */
const COMMIT_MS = 60_000;

export interface StoredEvent {
  readonly seq: number;
  readonly body: Uint8Array;
}

export interface EventStream {
  /** The position of the newest event ever stored. 0 before the first. */
  newest(): Promise<number>;
  /** The oldest events from a position on. None: the stream has none there. */
  read(fromSeq: number, limit: number): Promise<readonly StoredEvent[]>;
}

export interface EventsAt {
  readonly next: number;
  /** The newest event when the stage began. Later ones belong to the next pass. null: it begins. */
  readonly through: number | null;
}

export const EVENTS_START: EventsAt = { next: 1, through: null };

export interface EventPage {
  readonly events: readonly StoredEvent[];
  /** Where the next step continues. null: the stream is verified. */
  readonly next: EventsAt | null;
}

export async function readEvents(stream: EventStream, at: EventsAt, bytesMax: number): Promise<EventPage> {
  const through = at.through ?? (await stream.newest());
  if (at.next > through) return { events: [], next: null };
  const limit = Math.max(1, Math.min(SLICE, Math.floor(bytesMax / EVENT_BYTES)));
  const read = await stream.read(at.next, limit);
  const next = (read.at(-1)?.seq ?? through) + 1;
  return {
    events: read.filter(({ seq }) => seq <= through),
    next: next > through ? null : { next, through },
  };
}

/**
 * Only services may publish events. A message that is no event, such as the confirmation of another stream, is
 * ignored as by every consumer.
 */
export async function verifyEvents(step: ScrubStep, events: readonly StoredEvent[]): Promise<void> {
  for (const { body } of events) step.tally.bytes += body.length;
  const read = events.flatMap(({ body }) => {
    const event = readMessage(Buffer.from(body).toString());
    return event !== null && isNumbered(event) ? [event] : [];
  });
  const entries = await step.reader.getMany(
    read.map(({ tenant, subject, sequence }) => tenantKeys(tenant).audit(subject, sequence)),
  );
  for (const [i, event] of read.entries()) {
    const value = entries[i];
    const entry = readEntry(value);
    // A damaged entry is found with its trail.
    if ((value !== undefined && entry === null) || isEventOf(entry, event)) continue;
    if (await isOfLostStore(step.reader, event)) continue;
    const details =
      value === undefined
        ? "the stream has an event whose entry is not in the trail"
        : "the stream has an event that differs from its entry in the trail";
    step.noteOnce(event.tenant, event.subject, ofTask("event", details));
  }
}

/**
 * A backup was restored after the event, whose entry is of the future that was lost; or the task was restored from the files of a lost store, and
 * its trail began again.
 */
export async function isOfLostStore(
  reader: Reader,
  { tenant, subject, time }: AuditedMessage,
): Promise<boolean> {
  const [format, value] = await reader.getMany([systemKeys.meta("format"), tenantKeys(tenant).task(subject)]);
  const restored = format === undefined ? undefined : readable(() => decode<Format>(format))?.restored;
  if (restored !== undefined && time < restored.at && isAfter(time, restored.backup_at)) return true;
  const head = value === undefined ? null : readable(() => decodeHead(value));
  return head?.origin?.source === "mirror" && time < head.created_at;
}

function isAfter(time: string, backupAt: string): boolean {
  return Date.parse(time) >= Date.parse(backupAt) - COMMIT_MS;
}

export function isNumbered(event: AuditedMessage): event is AuditedMessage & { readonly sequence: number } {
  return Number.isSafeInteger(event.sequence) && Number(event.sequence) > 0;
}
