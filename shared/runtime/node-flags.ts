/**
 * How Node is started for a service process. One process uses about one core, so its garbage collector works in the same thread:
 * collector threads would take the processor from the bus, the store and the neighbours (measured on two cores with a thousand
 * writes in flight: 15 to 20 % more commits per second). The young generation is larger, because a request's data lives for
 * as long as its commit takes, and copying it around would be most of the collector's work.
 *
 * The `start` script and the Dockerfile repeat these; a test holds them equal.
 */
export const serviceNodeFlags = [
  "--single-threaded-gc",
  "--min-semi-space-size=64",
  "--max-semi-space-size=64",
] as const;
