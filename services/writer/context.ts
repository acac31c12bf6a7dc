/** The context of a writer, and that of its parts. */
import type { Bus } from "../../shared/bus/bus.ts";
import type { LeaderLeases } from "../../shared/records/leader/leader-lease.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Breaker } from "../../shared/runtime/breaker.ts";
import type { DiskSpace } from "../../shared/runtime/disk-space.ts";
import type { RepositoryContext } from "../../shared/service-host/repository.ts";
import type { ParseCommand } from "./commands.ts";
import type { WriterConfig } from "./config.ts";
import type { Backlog } from "./queue.ts";

export interface WriterContext extends RepositoryContext {
  readonly bus: Bus;
  readonly backgroundBus: Bus;
  readonly instance: string;
  readonly leases: LeaderLeases;
  readonly config: WriterConfig;
  readonly disk: DiskSpace;
}

/** The parts that apply commands, from requests and from the queue, share these. */
export interface WriterParts extends WriterContext {
  /** Guards the store. */
  readonly breaker: Breaker;
  readonly backlog: Backlog;
  readonly parseCommand: ParseCommand;
  readonly repository: CheckpointRepository;
}
