/** How many commands wait in the queue, asked at most every so often: under load everybody wants to know. */
import type { Bus } from "../../shared/bus/bus.ts";
import { STREAMS } from "../../shared/protocol/subjects.ts";
import type { Clock } from "../../shared/runtime/clock.ts";

const KNOWN_FOR_MS = 250;

export interface Backlog {
  /** 0 when the server does not say. */
  count(): Promise<number>;
}

export function createBacklog(bus: Bus, clock: Clock): Backlog {
  let known: Promise<number> = Promise.resolve(0);
  let askedAt = Number.NEGATIVE_INFINITY;
  return {
    count() {
      const now = clock.monotonic();
      if (now - askedAt >= KNOWN_FOR_MS) {
        askedAt = now;
        known = bus
          .stream(STREAMS.queue)
          .state()
          .then(
            ({ messages }) => messages,
            () => 0,
          );
      }
      return known;
    },
  };
}
