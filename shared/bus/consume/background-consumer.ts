/**
 * Consuming in the background, from when it is possible: a stream that cannot be had yet is no reason for a service not to start, and
 * whatever else it does goes on meanwhile.
 */
import type { Clock } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Stop } from "../../runtime/process/service.ts";
import type { Bus, ConsumeOptions, DurableMessage } from "../bus.ts";

const RETRY_MS = 1_000;

export interface Patience {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Consumer {
  readonly options: ConsumeOptions;
  /** The signal aborts when consuming is to end, while messages may still be in hand. */
  readonly handle: (message: DurableMessage, signal: AbortSignal) => Promise<void>;
}

/** Never fails. Stop ends them all, those too that could not begin yet, and waits for what is in hand. */
export function startConsuming(patience: Patience, consumers: readonly Consumer[]): Stop {
  const stopping = new AbortController();
  const begun = consumers.map((consumer) => begin(patience, consumer, stopping.signal));
  return async () => {
    stopping.abort();
    await Promise.all(begun.map(async (stop) => (await stop)()));
  };
}

/** Resolves when it consumes, or when the signal aborts; never rejects. */
async function begin(
  { bus, clock, log }: Patience,
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
