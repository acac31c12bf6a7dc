/**
 * The relay: publishes the events and offers of the outbox, in order per task, and then removes them from it.
 * A crash between the two publishes them again, which their ids make harmless (guarantee 9). Each partition
 * has a lease, so that instances share the work. An instance publishes its partitions together, because every
 * batch costs the server disk writes that also delay commits.
 */
import { type Bus, BusError, type OrderedMessage } from "../../shared/bus/bus.ts";
import { type OfferMark, offerMarks } from "../../shared/bus/publish/offer-marks.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Format } from "../../shared/records/kv/format.ts";
import type { LeaderLease, LeaderLeases } from "../../shared/records/leader/leader-lease.ts";
import { type Lease, requireLease } from "../../shared/records/leader/lease.ts";
import {
  clearPublished,
  isOffer,
  type OfferEntry,
  type OutboxEntry,
  outboxBacklog,
  readOutbox,
} from "../../shared/records/outbox/outbox.ts";
import type { DiskSpace } from "../../shared/runtime/disk-space.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { followTransitions } from "../../shared/service-host/store/follow-transitions.ts";
import type { Store } from "../../shared/store/store.ts";

const READ_DEADLINE_MS = 3_000;
const CLEAR_DEADLINE_MS = 3_000;
const PUBLISH_DEADLINE_MS = 5_000;
const POLL_MS = 1_000;
/**
 * The minimum interval between batches. Under load, fewer and larger batches cost the server fewer disk
 * writes. After a small batch, a client waits: a handoff is three events and an offer in sequence. The
 * interval starts when a batch is read, so that after a slow batch or a pause the next one is not delayed.
 */
const INTERVAL_MS = { few: 2, many: 35 };
const MANY = 16;
/** Entries that are committed at the same moment are published together. */
const GATHER_MS = 2;

const encoder = new TextEncoder();

export interface RelayContext extends ServiceContext {
  readonly store: Store;
  readonly bus: Bus;
  readonly disk: DiskSpace;
  readonly leases: LeaderLeases;
  readonly format: Pick<Format, "message_key">;
}

interface Relaying extends RelayContext {
  readonly markOf: OfferMark;
}

/** Stop finishes the current batch and releases the leases. */
export function startRelay(context: RelayContext): Stop {
  const stopping = new AbortController();
  const { signal } = stopping;
  const relayed = relay({ ...context, markOf: offerMarks(context.format.message_key) }, signal);
  const stopMeasuring = context.metrics.registry.measure({
    name: "outbox backlog",
    run: () => measure(context),
    log: context.log,
  });
  return async () => {
    stopping.abort();
    await Promise.all([relayed, stopMeasuring()]);
  };
}

interface Partition {
  readonly number: number;
  readonly leader: LeaderLease;
}

async function relay(context: Relaying, signal: AbortSignal): Promise<void> {
  const { store, clock, log, leases } = context;
  const partitions = Array.from({ length: LIMITS.outbox_partition_count }, (_, number) => ({
    number,
    leader: leases.of(`relay-${number}`),
  }));
  let nextAt = Number.NEGATIVE_INFINITY;
  const gatherMs = (): number => Math.max(GATHER_MS, nextAt - clock.monotonic());
  await followTransitions({
    name: "relay",
    store,
    take: () => takeBatch(store, partitions),
    handle: async (batch) => {
      nextAt = clock.monotonic() + (batch.entries.length < MANY ? INTERVAL_MS.few : INTERVAL_MS.many);
      await publishBatch(context, batch);
      if (!batch.isFull) await clock.sleep(gatherMs(), signal);
    },
    pollMs: POLL_MS,
    restMs: gatherMs,
    signal,
    clock,
    log,
  });
  await Promise.all(
    partitions.map(({ number, leader }) =>
      leader
        .release()
        .catch((error: unknown) => log.warn({ error, partition: number }, "a lease could not be released")),
    ),
  );
}

interface Batch {
  /** The leases of the partitions of `entries`. */
  readonly leases: readonly Lease[];
  readonly entries: readonly OutboxEntry[];
  /** Some partition has more entries. */
  readonly isFull: boolean;
}

/** The entries of the partitions that this instance holds, as at most one batch. Empty: there are none. */
async function takeBatch(store: Store, partitions: readonly Partition[]): Promise<Batch[]> {
  // In parallel, so that one commit renews all leases that are due.
  const leased = await Promise.all(partitions.map(({ leader }) => leader.hold()));
  const held = leased.flatMap((lease, number) => (lease === null ? [] : [{ number, lease }]));
  if (held.length === 0) return [];
  const options = { label: "read_outbox", deadlineMs: READ_DEADLINE_MS };
  const pages = await store.read(options, (reader) =>
    Promise.all(held.map(({ number }) => readOutbox(reader, number, LIMITS.outbox_batch_count_max))),
  );
  const entries = pages.flatMap((page) => page.entries);
  if (entries.length === 0) return [];
  const leases = held.flatMap(({ lease }, i) => (pages[i]!.entries.length > 0 ? [lease] : []));
  return [{ leases, entries, isFull: pages.some(({ more }) => more) }];
}

async function publishBatch(context: Relaying, { leases, entries }: Batch): Promise<void> {
  // After a failed write the server refuses every further one until its restart. The outbox keeps the events.
  if (context.disk.isExhausted("bus")) throw new BusError("unavailable", { reason: "the disk is full" });
  const events = entries.filter((entry) => !isOffer(entry));
  const published = await Promise.allSettled([
    context.bus.publishOrdered(
      events.map((entry) => message(entry, eventSubject(entry))),
      { timeoutMs: PUBLISH_DEADLINE_MS },
    ),
    publishOffers(context, entries.filter(isOffer)),
  ]);
  for (const one of published) if (one.status === "rejected") throw one.reason;
  // With normal priority: later commits are published only after this one.
  const options = { label: "clear_outbox", deadlineMs: CLEAR_DEADLINE_MS, onUnknown: "safe" } as const;
  await context.store.transact(options, async (tx) => {
    for (const lease of leases) await requireLease(tx, lease);
    clearPublished(tx, entries);
  });
  context.metrics.outboxPublishedTotal.inc(entries.length);
}

/**
 * An offer without room is dropped and made again at its deadline, because events must not wait for it. An offer leaves its stream when an
 * agent has taken it or a newer one of the task is stored, and a batch that is published again must not bring it back.
 */
async function publishOffers({ bus, log, markOf }: Relaying, offers: readonly OfferEntry[]): Promise<void> {
  try {
    await bus.publishOrdered(
      offers.map((entry) => message(entry, offerSubject(entry, markOf))),
      {
        timeoutMs: PUBLISH_DEADLINE_MS,
        refuseFull: true,
        expectsRemoval: true,
      },
    );
  } catch (error) {
    if (!(error instanceof BusError) || error.kind !== "stream_full") throw error;
    log.error({ error, offers: offers.length }, "the stream of offers is full");
  }
}

function eventSubject({ event }: OutboxEntry): string {
  return SUBJECTS.event(event.tenant, event.type, event.subject);
}

function offerSubject({ event }: OfferEntry, markOf: OfferMark): string {
  const { tenant, subject: task, data } = event;
  return SUBJECTS.offer(tenant, data.agent_type, task, markOf(tenant, task));
}

function message({ event, json }: OutboxEntry, subject: string): OrderedMessage {
  return {
    subject,
    messageId: event.id,
    orderKey: `${event.tenant}/${event.subject}`,
    body: encoder.encode(json),
    headers: {
      [HEADERS.contentType]: CONTENT_TYPES.event,
      ...(event.traceparent !== undefined && { traceparent: event.traceparent }),
    },
  };
}

async function measure({ store, metrics, clock }: RelayContext): Promise<void> {
  const backlog = await store.read({ label: "outbox_backlog", deadlineMs: READ_DEADLINE_MS }, (reader) =>
    outboxBacklog(reader),
  );
  metrics.outboxDepth.set(backlog.depth);
  metrics.outboxOldestAgeMs.set(backlog.oldestMs === null ? 0 : Math.max(0, clock.now() - backlog.oldestMs));
}
