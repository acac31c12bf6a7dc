/**
 * A registry whose gauges are measured when its metrics are read. A timer would read the store all day in a fleet whose metrics no program
 * reads, and between two scrapes in one whose metrics are read.
 */
import { Registry } from "prom-client";
import type { Logger } from "./log.ts";

/** The longest time for which a reader waits. A measurement that takes longer is in the next answer. */
const WAIT_MS = 2_000;

export interface Measurement {
  readonly name: string;
  readonly run: () => Promise<void>;
  readonly log: Logger;
}

export class MeasuredRegistry extends Registry {
  readonly #measurements = new Set<() => Promise<void>>();

  /** Each reading of the metrics runs the measurement first. An error is logged, and its gauges keep their values. Stop waits for a run in progress. */
  measure({ name, run, log }: Measurement): () => Promise<void> {
    let running: Promise<void> | undefined;
    const measure = (): Promise<void> => {
      // Readers at the same time share a run.
      running ??= run()
        .catch((error: unknown) => log.warn({ measurement: name, error }, "a measurement failed"))
        .finally(() => {
          running = undefined;
        });
      return running;
    };
    this.#measurements.add(measure);
    return async () => {
      this.#measurements.delete(measure);
      await running;
    };
  }

  override async metrics(): Promise<string> {
    await this.#measureAll();
    return super.metrics();
  }

  override async getMetricsAsJSON(): ReturnType<Registry["getMetricsAsJSON"]> {
    await this.#measureAll();
    return super.getMetricsAsJSON();
  }

  async #measureAll(): Promise<void> {
    if (this.#measurements.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, WAIT_MS);
    });
    await Promise.race([Promise.all([...this.#measurements].map((measure) => measure())), late]);
    clearTimeout(timer);
  }
}
