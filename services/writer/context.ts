/** What the parts of a writer are given. */
import type { Bus } from "../../shared/bus/bus.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Breaker } from "../../shared/runtime/breaker.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import type { Backlog } from "./backlog.ts";
import type { ParseCommand } from "./commands.ts";

/** For whatever takes commands, from callers or out of the queue. */
export interface WriterParts extends ServiceContext {
  readonly bus: Bus;
  readonly backgroundBus: Bus;
  /** Around the store. */
  readonly breaker: Breaker;
  readonly backlog: Backlog;
  readonly parseCommand: ParseCommand;
  readonly repository: CheckpointRepository;
}
