/**
 * Consuming from when it is possible: a stream that cannot be had yet is no reason for a service not to start, and whatever else it does
 * goes on meanwhile.
 */
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/log.ts";
import type { Stop } from "../runtime/service.ts";
import type { Bus, ConsumeOptions, DurableMessage } from "./bus.ts";

const RETRY_MS = 1_000;

export interface Patience {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
  /** Ends the trying; what consumes by then is ended by the Stop. */
  readonly signal: AbortSignal;
}

/** Resolves when it consumes, or when the signal aborts; never rejects. */
export async function consumePatiently(
  { bus, clock, log, signal }: Patience,
  options: ConsumeOptions,
  handle: (message: DurableMessage) => Promise<void>,
): Promise<Stop> {
  while (!signal.aborted) {
    try {
      return await bus.consume(options, handle);
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
