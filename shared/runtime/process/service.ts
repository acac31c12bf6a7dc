// What every service is: a function that starts it and returns how to stop it.

import type { Clock } from "../clock.ts";
import type { Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";

/** Stops what was started. Safe to call once; resolves when nothing of it is left running. */
export type Stop = () => Promise<void>;

/** What a process gives to each service in it. */
export interface ServiceContext {
  log: Logger;
  metrics: Metrics;
  clock: Clock;
}
