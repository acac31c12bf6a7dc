/**
 * Events as a stream (server-sent events). The bus announces each event, and the reader gives it with its position, so a
 * client that comes back with the id of its last event (`Last-Event-ID`) misses none and gets none twice.
 */
import type { EventsPage } from "../../../shared/protocol/event-queries.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type Clock, createWake } from "../../../shared/runtime/clock.ts";
import type { Members } from "../http/body.ts";
import { bodyFrom } from "./answer-body.ts";
import type { FleetRequests } from "./fleet-requests.ts";

/** Also the longest time for which an event stays unannounced. */
const KEEP_ALIVE_MS = 15_000;
/** The announcement of an event may be here before the stream has stored it. */
const STORED_MS = [20, 50, 100, 200, 500, 1_000];

export interface EventStreamOptions {
  readonly fleet: FleetRequests;
  readonly clock: Clock;
  readonly members: Members;
  /** Aborted when the client has left, the connection of the caller has ended, or the gateway stops. */
  readonly signal: AbortSignal;
  /** False: the credentials of the caller are no longer valid. */
  readonly isAdmitted: () => Promise<boolean>;
  /** Called when the stream has ended by itself, such as after a revocation. */
  readonly ended: () => void;
}

/** Throws FleetError before the first byte. */
export async function eventStream(options: EventStreamOptions): Promise<ReadableStream<Uint8Array>> {
  const { fleet, members } = options;
  const { bus, tenant } = fleet.caller;
  const task = typeof members.task_id === "string" ? members.task_id : undefined;
  const wake = createWake();
  // Before the first page, so that no event falls between the two.
  const stopListening = await bus.subscribe(SUBJECTS.eventsIn({ tenant, task }), () => wake.notify());
  const leave = (): void => void stopListening();
  options.signal.addEventListener("abort", leave, { once: true });
  // The client may have left while the bus subscribed, and the connection of its other requests stays open.
  if (options.signal.aborted) leave();
  const first = await fleet.ask("events", members);
  return bodyFrom(texts(options, wake, first), options.ended).pipeThrough(new TextEncoderStream());
}

async function* texts(
  { fleet, clock, members, signal, isAdmitted }: EventStreamOptions,
  wake: ReturnType<typeof createWake>,
  first: EventsPage,
): AsyncGenerator<string, void> {
  let page = first;
  // The position before the first event, for a client that leaves at once.
  yield `retry: 2000\nid: ${page.events.length === 0 ? page.cursor : ""}\n\n`;
  for (;;) {
    for (const { cursor, event } of page.events)
      yield `id: ${cursor}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
    const { cursor: after } = page;
    const next = () => fleet.ask("events", { ...members, after });
    if (page.events.length > 0) {
      page = await next();
      continue;
    }
    const begin = clock.monotonic();
    await clock.wait(KEEP_ALIVE_MS, wake, signal);
    if (signal.aborted || !(await isAdmitted())) return;
    if (clock.monotonic() - begin >= KEEP_ALIVE_MS) yield ": keep-alive\n\n";
    for (const pause of STORED_MS) {
      page = await next();
      if (page.events.length > 0 || signal.aborted) break;
      await clock.sleep(pause, signal);
    }
  }
}
