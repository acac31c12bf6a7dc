/** Events that the instances of a service see to together: each is seen to by one of them. */
import type { EventType } from "../../protocol/events.ts";
import { STREAMS, SUBJECTS } from "../../protocol/subjects.ts";
import type { DurableMessage } from "../bus.ts";
import type { Consumer } from "./background-consumer.ts";

export interface EventShare<T extends EventType = EventType> {
  readonly durable: string;
  readonly types: readonly T[];
  /** Under way in all instances together; the rest waits in the stream. */
  readonly underWay: number;
}

const ACK_WAIT_MS = 5_000;
const PULL_MS = 60_000;

export function consumerOf(
  { durable, types, underWay }: EventShare,
  handle: (message: DurableMessage) => Promise<void>,
): Consumer {
  const options = {
    stream: STREAMS.events,
    durable,
    filters: types.map((type) => SUBJECTS.eventsOf(type)),
    maxAckPending: underWay,
    ackWaitMs: ACK_WAIT_MS,
    pullMs: PULL_MS,
  };
  return { options, handle };
}
