/** Events of a tenant from their stream, in pages. A caller that keeps the cursor of its last event misses none. */
import type { StoredBody } from "../../../shared/bus/bus.ts";
import { decodeBody } from "../../../shared/integrity/wire.ts";
import { invalid } from "../../../shared/protocol/errors.ts";
import type { EventsPage } from "../../../shared/protocol/event-queries.ts";
import { type EventType, readEvent } from "../../../shared/protocol/events.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { QueryParams } from "../../../shared/protocol/queries.ts";
import { CONTENT_TYPES, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { openCursor, sealCursor } from "../../../shared/records/kv/cursor.ts";
import type { ReaderContext } from "../context.ts";

export type EventQuery = (tenant: string, query: QueryParams<"events">) => Promise<EventsPage>;

type ListedEvent = EventsPage["events"][number];

export function createEventQuery({ bus, log }: ReaderContext): EventQuery {
  const view = bus.stream(STREAMS.events);
  return async (tenant, { task_id: task, type, after, from, limit }) => {
    const kind = `events/${tenant}`;
    const { lastSeq } = await view.state();
    const wanted =
      after === undefined ? (from === "oldest" ? 0 : lastSeq) : positionOf(openCursor(kind, after));
    // A stream that was made again begins at 1.
    const position = wanted > lastSeq ? 0 : wanted;
    const page = (end: number, events: readonly ListedEvent[]): EventsPage => ({
      events: [...events],
      cursor: sealCursor(kind, String(end)),
    });
    if (position === lastSeq) return page(position, []);
    const filter = SUBJECTS.eventsIn({ tenant, type, task });
    const found = await view.read(position + 1, limit, filter);
    const events: ListedEvent[] = [];
    let bytes = 0;
    for (const stored of found) {
      bytes += stored.body.length;
      if (events.length > 0 && bytes > LIMITS.reply_bytes_max) return page(stored.seq - 1, events);
      const event = readable(stored, tenant);
      if (event !== undefined) events.push({ cursor: sealCursor(kind, String(stored.seq)), event });
      else log.warn({ seq: stored.seq, subject: stored.subject }, "message is not an event");
    }
    const last = found.at(-1)?.seq;
    // After a full page there may be more; after another one the whole stream up to its end was read.
    return page(found.length === limit && last !== undefined ? last : Math.max(lastSeq, last ?? 0), events);
  };
}

/** undefined: no service of the fleet can have written it. */
function readable({ subject, body }: StoredBody, tenant: string): ListedEvent["event"] | undefined {
  try {
    const type = subject.split(".")[3] as EventType;
    const event = readEvent(decodeBody(body, CONTENT_TYPES.json), [type]);
    return event.tenant === tenant ? (event as unknown as ListedEvent["event"]) : undefined;
  } catch {
    return undefined;
  }
}

function positionOf(text: string): number {
  const position = Number(text);
  if (!Number.isSafeInteger(position) || position < 0)
    throw invalid("after", "the cursor of an event, unchanged", text);
  return position;
}
