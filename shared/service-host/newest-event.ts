/** The refusal of a store that a tool of the engine has restored, and that does not know it. */
import { type Bus, BusError } from "../bus/bus.ts";
import { FleetError } from "../protocol/errors.ts";
import { STREAMS } from "../protocol/subjects.ts";
import { isAuditedEvent, missingEvent } from "../records/restored/missing-event.ts";
import { exitCodes, refusedStart, StartupError } from "../runtime/process/startup.ts";
import type { Store } from "../store/store.ts";

/** Clients can make JetStream store its confirmations among the events, so the newest message may be none. */
const LOOKED_AT_MAX = 1_000;

/** Throws StartupError if the newest event of the bus is missing in the store. Without events on the bus nothing is known. */
export async function requireNewestEvent(store: Store, bus: Bus, storeUrl: string): Promise<void> {
  // First the bus, so that the store has what is read there.
  const body = await newestEvent(bus);
  const missing = body === null ? null : await missingEvent(store, body);
  if (missing === null) return;
  const { id, time } = missing;
  const error = new FleetError(
    "CONFLICT",
    "the store lacks the newest event of the bus: it is an older copy",
    {
      details: { event: id, event_at: time, next: "fleet restore --restored-at TIME" },
    },
  );
  throw refusedStart(error, { store: storeUrl });
}

async function newestEvent(bus: Bus): Promise<Uint8Array | null> {
  const events = bus.stream(STREAMS.events);
  try {
    const { messages, lastSeq } = await events.state();
    const first = Math.max(1, lastSeq - LOOKED_AT_MAX + 1);
    for (let seq = lastSeq; messages > 0 && seq >= first; seq -= 1) {
      const body = (await events.get(seq))?.body;
      if (body !== undefined && isAuditedEvent(body)) return body;
    }
    return null;
  } catch (cause) {
    if (!(cause instanceof BusError)) throw cause;
    throw new StartupError("the newest event of the bus cannot be read", {
      exitCode: exitCodes.unavailable,
      details: { stream: STREAMS.events, problem: cause.kind },
      hint: "see the log of the nats-server",
      cause,
    });
  }
}
