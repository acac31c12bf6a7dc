/** The streams of the server, as the interface of JetStream changes them. */
import type { SimulatedFate } from "../faults/plan.ts";
import type { Runner } from "../time.ts";
import type { SimulatedStream } from "./stream.ts";
import type { Deliveries } from "./waiting-pulls.ts";

export interface StreamCollection {
  readonly streams: ReadonlyMap<string, SimulatedStream>;
  readonly deliveries: Deliveries;
  readonly fate: SimulatedFate;
  readonly run: Runner;
  /** Of all streams together. */
  readonly storageBytes: number;
  add(stream: SimulatedStream): void;
  remove(stream: SimulatedStream): void;
}
