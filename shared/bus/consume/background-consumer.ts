/**
 * Consumers that start in the background. A stream that is not available yet must not keep a service from
 * starting and doing its other work.
 */
import type { Clock } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Stop } from "../../runtime/process/service.ts";
import type { Bus, ConsumeOptions, DurableMessage } from "../bus.ts";

const RETRY_MS = 1_000;

export interface ConsumerContext {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Consumer {
  readonly options: ConsumeOptions;
  /** The signal aborts when the consumer stops. Messages may still be in progress then. */
  readonly handle: (message: DurableMessage, signal: AbortSignal) => Promise<void>;
}

/** Never fails. Stop ends all consumers, also those that have not started yet, and awaits open messages. */
export function startConsumers(context: ConsumerContext, consumers: readonly Consumer[]): Stop {
  const stopping = new AbortController();
  const begun = consumers.map((consumer) => begin(context, consumer, stopping.signal));
  return async () => {
    stopping.abort();
    await Promise.all(begun.map(async (stop) => (await stop)()));
  };
}

/** Resolves when the consumer has started or the signal aborts. Never rejects. */
async function begin(
  { bus, clock, log }: ConsumerContext,
  { options, handle }: Consumer,
  signal: AbortSignal,
): Promise<Stop> {
  while (!signal.aborted) {
    try {
      return await bus.consume(options, (message) => handle(message, signal));
    } catch (error) {
      log.warn(
        { error, stream: options.stream, durable: options.durable },
        "a stream cannot be consumed yet",
      );
      await clock.sleep(RETRY_MS, signal);
    }
  }
  return async () => {};
}
