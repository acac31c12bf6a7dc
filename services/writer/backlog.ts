/** How many commands wait in the queue. */
import type { Bus } from "../../shared/bus/bus.ts";
import { STREAMS } from "../../shared/protocol/subjects.ts";
import type { Clock } from "../../shared/runtime/clock.ts";

const KNOWN_FOR_MS = 250;

export interface Backlog {
  /** As it was a moment ago: under load everybody wants to know. null when the server does not say. */
  recentCount(): Promise<number | null>;
  /** As it is now; null when the server does not say. */
  count(): Promise<number | null>;
}

export function createBacklog(bus: Bus, clock: Clock): Backlog {
  const count = (): Promise<number | null> =>
    bus
      .stream(STREAMS.queue)
      .state()
      .then(
        ({ messages }) => messages,
        () => null,
      );
  let known: Promise<number | null> = Promise.resolve(null);
  let askedAt = Number.NEGATIVE_INFINITY;
  return {
    count,
    recentCount() {
      const now = clock.monotonic();
      if (now - askedAt >= KNOWN_FOR_MS) {
        askedAt = now;
        known = count();
      }
      return known;
    },
  };
}
