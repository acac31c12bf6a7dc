/**
 * Consumers of events that all instances of a service share: each event is handled by one of them, and again
 * after a failure or a crash, so a handler must be idempotent.
 */
import type { Bus, DurableMessage } from "../bus/bus.ts";
import { startConsumers } from "../bus/consume/background-consumer.ts";
import { decodeBody } from "../integrity/wire.ts";
import { FleetError } from "../protocol/errors.ts";
import { type EventType, type FleetEvent, readEvent } from "../protocol/events.ts";
import { CONTENT_TYPES, STREAMS, SUBJECTS } from "../protocol/subjects.ts";
import { withSpan } from "../runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../runtime/process/service.ts";

const ACK_WAIT_MS = 5_000;
const PULL_MS = 60_000;
/** An event of a newer version is given back for a minute, in which an instance of that version takes it, and then passed over. */
const NEWER = { pauseMs: 1_000, deliveriesMax: 60 } as const;
/** The place of the type in the subject of an event. */
const TYPE_TOKEN = SUBJECTS.eventsOf("T").split(".").indexOf("T");

export interface EventContext extends ServiceContext {
  readonly backgroundBus: Bus;
}

/** The event, with its type and its data belonging together. */
export type EventOf<T extends EventType> = { [E in T]: FleetEvent<E> }[T];

export interface EventConsumer<T extends EventType = EventType> {
  /** Names its spans. */
  readonly name: string;
  readonly durable: string;
  readonly types: readonly T[];
  /** Events in progress in all instances together; the rest wait in the stream. */
  readonly inProgressMax: number;
  /** A rejected promise redelivers the event after a growing pause. */
  readonly handle: (event: EventOf<T>, message: DurableMessage) => Promise<void>;
}

/** Starts in the background, as soon as the stream is available. */
export function startEventConsumer<T extends EventType>(
  context: EventContext,
  { name, durable, types, inProgressMax, handle }: EventConsumer<T>,
): Stop {
  const { backgroundBus: bus, clock, log } = context;
  const options = {
    stream: STREAMS.events,
    durable,
    filters: types.map((type) => SUBJECTS.eventsOf(type)),
    maxAckPending: inProgressMax,
    ackWaitMs: ACK_WAIT_MS,
    pullMs: PULL_MS,
  };
  const read = (message: DurableMessage): EventOf<T> | null => {
    try {
      return readEvent(decodeBody(message.body, CONTENT_TYPES.json), types) as EventOf<T>;
    } catch (error) {
      if (!(error instanceof FleetError)) throw error;
      const { subject, seq } = message;
      log.error({ error, subject, seq, durable }, "message is not an event of the fleet");
      return null;
    }
  };
  const handled = async (message: DurableMessage): Promise<void> => {
    if (isOfNewer(message, types)) {
      if (message.deliveries <= NEWER.deliveriesMax) return message.giveBack(NEWER.pauseMs);
      const { subject, seq } = message;
      return log.warn({ subject, seq, durable }, "an event of a newer version of Fleet was passed over");
    }
    const event = read(message);
    // No transaction of the fleet has written it: it would be redelivered for ever.
    if (event === null) return message.dead("not an event of the fleet");
    const parent = message.headers;
    await withSpan(name, {}, () => handle(event, message), { parent, kind: "consumer" });
  };
  return startConsumers({ bus, clock, log }, [{ options, handle: handled }]);
}

/**
 * During an upgrade, instances of a newer version may have widened the filters of the durable. Its further types are then delivered to older
 * instances too. The subject has the type, and services alone may publish it.
 */
function isOfNewer({ subject }: DurableMessage, types: readonly EventType[]): boolean {
  const type = subject.split(".")[TYPE_TOKEN];
  return !types.some((own) => own === type);
}
