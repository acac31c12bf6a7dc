/**
 * Messages that came back. A server that could not write down that messages were settled (its disk was full), or whose folder was
 * restored from a backup, holds them again after its next start; but its consumers have passed them and never deliver them. They would
 * wait for ever, as a queue that never empties. So such a consumer is removed: it is made anew by whoever consumes (`consume`), and
 * delivers all that is there, in order. Most of it was done before, which whoever does it must notice.
 */
import type { ConsumerInfo } from "@nats-io/jetstream";
import type { StreamAccess } from "../consume/consume.ts";

/** Returns how many consumers were removed. Those with work under way are left for another time. */
export async function redeliverReturned(
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
    // What stands behind the floor is new and on its way; what stands before it was settled once.
    if (first === null || first.seq > consumer.ack_floor.stream_seq) continue;
    log.warn(
      { stream, durable: consumer.name, seq: first.seq },
      "settled messages came back, delivering again",
    );
    await manager.consumers.delete(stream, consumer.name);
    removed += 1;
  }
  return removed;
}

/** The one subject of a consumer that works a part of the stream alone. */
function filterOf({ config }: ConsumerInfo): string | undefined {
  if (config.durable_name === undefined) return undefined;
  const filters = config.filter_subjects ?? (config.filter_subject ? [config.filter_subject] : []);
  return filters.length === 1 ? filters[0] : undefined;
}
