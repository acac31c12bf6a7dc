/** Makes metrics in one registry. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";

export type MetricMakers = ReturnType<typeof makers>;

/** From half a millisecond (a cached read) to five seconds (a request that nearly times out). */
export const latencyBucketsMs = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/** From an agent that waits for the offer to one that is started by hand. */
const fractionBuckets = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
export const handoffBucketsMs = [10, 20, 50, 100, 200, 500, 1_000, 5_000, 30_000, 60_000, 300_000, 900_000];

export function makers(registry: Registry) {
  const registers = [registry];
  return {
    counter: <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
      // All threads that measure a backlog measure the same one.
      new Gauge({ name, help, labelNames, registers, aggregator: labelNames.length > 0 ? "sum" : "max" }),
    /** A gauge with labels that has the same value in every thread that measures it. */
    backlog: <L extends string>(name: string, help: string, labelNames: L[]) =>
      new Gauge({ name, help, labelNames, registers, aggregator: "max" }),
    durations: (name: string, help: string) =>
      new Histogram({ name, help, buckets: handoffBucketsMs, registers }),
    fractions: (name: string, help: string) =>
      new Histogram({ name, help, buckets: fractionBuckets, registers }),
    latency: (name: string, help: string) =>
      new Histogram({
        name,
        help,
        labelNames: ["op", "outcome"] as const,
        buckets: latencyBucketsMs,
        registers,
      }),
  };
}
