/**
 * Reads messages from streams: `consume` with acknowledgements, at least once, for work; `follow` without,
 * for watching.
 *
 * A message whose handler fails is delivered again after a growing pause, without limit: a limit on
 * deliveries would leave it in the stream where no lag metric shows it. A handler must declare a hopeless
 * message dead.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  AckPolicy,
  type ConsumerConfig,
  type ConsumerMessages,
  type ConsumerNotification,
  DeliverPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  type JsMsg,
} from "@nats-io/jetstream";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Stop } from "../../runtime/process/service.ts";
import type { ConsumeOptions, DurableMessage, Message } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { ReceivedMessage } from "../request/message.ts";
import { SETTINGS_VERSION, settingsMetadata, settingsVersionOf } from "../streams/streams.ts";

export const NANOS_PER_MS = 1_000_000;
const PREFETCH_MAX = 256;
const REDELIVERY_MS = { first: 250, last: 30_000 };
const PULL_MS = 5_000;
const RETRY_MS = 1_000;
/** The number of heartbeats per pull request. Two missing ones mean that the server lost the request. */
const HEARTBEATS = 5;

export interface StreamAccess {
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly log: Logger;
}

function pull(ms: number) {
  return { expires: ms, idle_heartbeat: Math.floor(ms / HEARTBEATS) };
}

export async function consume(
  access: StreamAccess,
  o: ConsumeOptions,
  handler: (m: DurableMessage) => Promise<void>,
): Promise<Stop> {
  let active = 0;
  let idle: (() => void) | undefined;
  const handle = async (raw: JsMsg): Promise<void> => {
    active += 1;
    await handled(raw, o, handler, access.log);
    active -= 1;
    if (active === 0) idle?.();
  };
  const stopping = new AbortController();
  try {
    const messages = await subscribe(access, o, (raw) => void handle(raw));
    const kept = keepSubscribed(access, o, messages, (raw) => void handle(raw), stopping.signal);
    return async () => {
      stopping.abort();
      await kept;
      if (active > 0) await new Promise<void>((resolve) => (idle = resolve));
    };
  } catch (error) {
    throw busError(error, { stream: o.stream, durable: o.durable });
  }
}

type Deliver = (raw: JsMsg) => void;

async function subscribe(
  access: StreamAccess,
  o: ConsumeOptions,
  callback: Deliver,
): Promise<ConsumerMessages> {
  await ensureConsumer(access, o);
  const consumer = await access.client.consumers.get(o.stream, o.durable);
  const prefetch = Math.min(o.maxAckPending, PREFETCH_MAX);
  return consumer.consume({
    ...pull(o.pullMs ?? PULL_MS),
    max_messages: prefetch,
    // At least 0.5, so that a prefetch of 1 never asks for 0 messages.
    threshold_messages: Math.max(0.5, prefetch / 2),
    // After a reconnect the library pulls at once. It would otherwise ask for the consumer first, and wait for
    // the length of a pull request if the server is not ready yet.
    bind: true,
    callback,
  });
}

/**
 * Subscribes again after the consumer was removed, or its stream was restored from a backup: the library
 * itself waits for the length of a pull request before it looks for the consumer. Resolves when the signal
 * has aborted, or the connection is closed for good. Never rejects.
 */
async function keepSubscribed(
  access: StreamAccess,
  o: ConsumeOptions,
  messages: ConsumerMessages,
  deliver: Deliver,
  signal: AbortSignal,
): Promise<void> {
  const fields = { stream: o.stream, durable: o.durable };
  let current: ConsumerMessages | null = messages;
  while (current !== null) {
    await ended(current, signal);
    await current.close();
    current = null;
    if (signal.aborted) return;
    access.log.warn(fields, "the server does not know the consumer, subscribing again");
    while (current === null && !signal.aborted) {
      try {
        current = await subscribe(access, o, deliver);
      } catch (error) {
        if (busError(error).kind === "closed") return;
        access.log.warn({ error, ...fields }, "the consumer could not be made");
        await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
      }
    }
  }
}

const UNKNOWN_CONSUMER: ReadonlySet<string> = new Set([
  "consumer_deleted",
  "consumer_not_found",
  "no_responders",
  "stream_not_found",
] satisfies ConsumerNotification["type"][]);

/** Resolves when the server reports that it does not know the consumer, the messages end or the signal aborts. */
async function ended(messages: ConsumerMessages, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const stop = (): void => void messages.close();
  signal.addEventListener("abort", stop);
  try {
    for await (const { type } of messages.status()) if (UNKNOWN_CONSUMER.has(type)) return;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Never rejects: a message whose handler failed is delivered again. */
async function handled(
  raw: JsMsg,
  { durable }: Pick<ConsumeOptions, "durable">,
  handler: (m: DurableMessage) => Promise<void>,
  log: Logger,
): Promise<void> {
  try {
    const message = new StoredMessage(raw);
    await handler(message);
    message.ack();
  } catch (error) {
    log.error({ error, durable, seq: raw.seq }, "message handler failed");
    giveBack(raw, log);
  }
}

function giveBack(raw: JsMsg, log: Logger): void {
  const pauseMs = Math.min(REDELIVERY_MS.first * 2 ** (raw.info.deliveryCount - 1), REDELIVERY_MS.last);
  try {
    raw.nak(pauseMs);
  } catch (error) {
    // The connection is closed. The message is delivered again after its acknowledgement wait.
    log.debug({ error, seq: raw.seq }, "message could not be given back");
  }
}

function changeableConfig(o: ConsumeOptions): Partial<ConsumerConfig> {
  return {
    ack_wait: o.ackWaitMs * NANOS_PER_MS,
    max_ack_pending: o.maxAckPending,
    max_deliver: -1,
    ...(o.filters !== undefined && { filter_subjects: [...o.filters] }),
    ...(o.forgottenAfterMs !== undefined && { inactive_threshold: o.forgottenAfterMs * NANOS_PER_MS }),
  };
}

export async function ensureConsumer(
  { manager }: Pick<StreamAccess, "manager">,
  o: ConsumeOptions,
): Promise<void> {
  const changeable = changeableConfig(o);
  const found = await manager.consumers.info(o.stream, o.durable).catch((error: unknown) => {
    if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.ConsumerNotFound)
      return undefined;
    throw error;
  });
  if (found === undefined) {
    const fixed = {
      durable_name: o.durable,
      ack_policy: AckPolicy.Explicit,
      deliver_policy: o.from === "new" ? DeliverPolicy.New : DeliverPolicy.All,
      ...(o.waitingMax !== undefined && { max_waiting: o.waitingMax }),
    };
    await manager.consumers.add(o.stream, { ...fixed, ...changeable, metadata: settingsMetadata() });
  } else if (consumerDifferences(found.config, o).length > 0) {
    const metadata = { ...found.config.metadata, ...settingsMetadata() };
    await manager.consumers.update(o.stream, o.durable, { ...changeable, metadata });
  }
}

/** The settings of a durable that differ from those of its service, and that no newer version has chosen. */
export function consumerDifferences(found: ConsumerConfig, o: ConsumeOptions): string[] {
  if (settingsVersionOf(found) > SETTINGS_VERSION) return [];
  const wanted = changeableConfig(o);
  const filters = (config: Partial<ConsumerConfig>) =>
    JSON.stringify(config.filter_subjects ?? (config.filter_subject ? [config.filter_subject] : []));
  const numbers = (["ack_wait", "max_ack_pending", "max_deliver"] as const).filter(
    (field) => (found[field] ?? -1) !== wanted[field],
  );
  return filters(found) === filters(wanted) ? numbers : [...numbers, "filter_subjects"];
}

export async function follow(
  { client, manager, log }: StreamAccess,
  o: { stream: string; filter: string; from: "new" | "all" },
  handler: (m: Message) => void,
): Promise<Stop> {
  const deliver = (raw: JsMsg): void => {
    try {
      handler(new StreamMessage(raw));
    } catch (error) {
      log.error({ error, stream: o.stream, seq: raw.seq }, "stream watcher failed");
    }
  };
  try {
    // "New" becomes a position now. A reconnect before the first message would otherwise skip later messages.
    const after = o.from === "new" ? (await manager.streams.info(o.stream)).state.last_seq : 0;
    const start = { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: after + 1 };
    const consumer = await client.consumers.get(o.stream, { filter_subjects: o.filter, ...start });
    const messages = await consumer.consume({
      ...pull(PULL_MS),
      max_messages: PREFETCH_MAX,
      callback: deliver,
    });
    return async () => {
      await messages.close();
      await consumer
        .delete()
        .catch((error: unknown) => log.debug({ error }, "consumer of a watcher was already removed"));
    };
  } catch (error) {
    throw busError(error, { stream: o.stream });
  }
}

/** Hides the reply address of a delivery, which is the server's acknowledgement subject. */
class StreamMessage extends ReceivedMessage {
  override get replyTo(): undefined {
    return undefined;
  }
}

class StoredMessage extends StreamMessage implements DurableMessage {
  readonly #raw: JsMsg;

  constructor(raw: JsMsg) {
    super(raw);
    this.#raw = raw;
  }

  get seq(): number {
    return this.#raw.seq;
  }

  get storedAt(): number {
    return this.#raw.time.getTime();
  }

  get redelivered(): boolean {
    return this.#raw.redelivered;
  }

  get deliveries(): number {
    return this.#raw.info.deliveryCount;
  }

  ack(): void {
    this.#raw.ack();
  }

  working(): void {
    this.#raw.working();
  }

  giveBack(pauseMs = 0): void {
    this.#raw.nak(pauseMs);
  }

  dead(reason: string): void {
    this.#raw.term(reason);
  }
}
