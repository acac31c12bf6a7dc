// The shape of every service: a function that starts it and returns the function that stops it.

import type { Clock } from "../clock.ts";
import type { Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";

/** Stops a service or a part of one. To be called once; resolves when nothing of it is left running. */
export type Stop = () => Promise<void>;

/** What each service receives from its process. */
export interface ServiceContext {
  log: Logger;
  metrics: Metrics;
  clock: Clock;
}
