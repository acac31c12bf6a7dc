/**
 * Stale consumers: those that have passed messages which are in the stream again. A server with a full disk
 * cannot record that messages were settled, and a restored backup is older, so they are stored again after
 * its next start. The consumer never delivers them, and the queue never empties. So the consumer is removed:
 * `consume` creates it again, and it delivers all messages in order. Handlers must recognise those that were
 * handled before.
 */
import type { ConsumerInfo } from "@nats-io/jetstream";
import type { StreamAccess } from "../consume/consume.ts";

/** Returns the number of removed consumers. A consumer with open messages stays until a later call. */
export async function removeStaleConsumers(
  { manager, log }: Omit<StreamAccess, "client">,
  stream: string,
): Promise<number> {
  const { state } = await manager.streams.info(stream);
  if (state.messages === 0) return 0;
  let removed = 0;
  for await (const consumer of manager.consumers.list(stream)) {
    const filter = filterOf(consumer);
    if (filter === undefined || consumer.num_pending > 0 || consumer.num_ack_pending > 0) continue;
    const first = await manager.direct.getMessage(stream, { seq: 1, next_by_subj: filter });
    // A message after the floor is new and will be delivered. One before it was settled once.
    if (first === null || first.seq > consumer.ack_floor.stream_seq) continue;
    log.warn(
      { stream, durable: consumer.name, seq: first.seq },
      "settled messages are in the stream again; the consumer is removed",
    );
    await manager.consumers.delete(stream, consumer.name);
    removed += 1;
  }
  return removed;
}

/** The subject of a consumer with exactly one. */
function filterOf({ config }: ConsumerInfo): string | undefined {
  if (config.durable_name === undefined) return undefined;
  const filters = config.filter_subjects ?? (config.filter_subject ? [config.filter_subject] : []);
  return filters.length === 1 ? filters[0] : undefined;
}
