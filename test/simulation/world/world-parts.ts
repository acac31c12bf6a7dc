/** The parts of a world. */
import type { Stop } from "../../../shared/runtime/process/service.ts";
import type { HeartbeatRecord } from "../../fleet/faults/checker/evidence.ts";
import type { connectHost, WorldHost } from "./host.ts";
import type { Supervised } from "./services.ts";
import type { Dispatcher } from "./tasks.ts";

/** The programs of a world, in the order of their stop. */
export interface World {
  readonly host: WorldHost;
  readonly services: readonly Supervised[];
  readonly agents: readonly Supervised[];
  readonly takers: readonly Supervised[];
  readonly heartbeats: readonly HeartbeatRecord[];
  readonly dispatcher: Dispatcher;
  /** Whether an agent or the operator has something left to do. */
  readonly hasWork: () => boolean;
  /** The tasks of workers. */
  readonly started: Set<string>;
  readonly bus: Awaited<ReturnType<typeof connectHost>>;
  readonly stopRecording: Stop;
}
