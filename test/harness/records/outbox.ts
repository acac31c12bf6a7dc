/** The events that wait in the outbox of a store. */
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { type OutboxEntry, readOutbox } from "../../../shared/records/outbox/outbox.ts";
import type { Store } from "../../../shared/store/store.ts";

const PARTITIONS = 8;
const ROWS_MAX = 1_000;

async function waiting(store: Store): Promise<OutboxEntry[]> {
  const partitions = await store.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
    Promise.all(Array.from({ length: PARTITIONS }, (_, n) => readOutbox(reader, n, ROWS_MAX))),
  );
  return partitions.flatMap(({ entries }) => entries);
}

/** Those of one type, in the order of their commits for each task. */
export async function waitingEvents(store: Store, type: string): Promise<FleetEvent[]> {
  const events = (await waiting(store)).map(({ event }) => event as FleetEvent);
  return events.filter((event) => event.type === type);
}

/** Those of a task, as the stream gets them. */
export async function waitingBodies(store: Store, task: string): Promise<string[]> {
  return (await waiting(store)).filter(({ event }) => event.subject === task).map(({ json }) => json);
}
