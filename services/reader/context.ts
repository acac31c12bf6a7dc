/** The context of a reader. */
import type { Bus } from "../../shared/bus/bus.ts";
import type { LeaderLeases } from "../../shared/records/leader/leader-lease.ts";
import type { DiskSpace } from "../../shared/runtime/disk-space.ts";
import type { ArtifactHolding } from "../../shared/service-host/artifacts.ts";
import type { RepositoryContext } from "../../shared/service-host/repository.ts";
import type { EncryptionKeys } from "../../shared/service-host/store/encryption.ts";
import type { ReaderConfig } from "./config.ts";

export interface ReaderContext extends RepositoryContext {
  readonly bus: Bus;
  readonly instance: string;
  readonly leases: LeaderLeases;
  readonly config: ReaderConfig;
  readonly disk: DiskSpace;
  readonly artifacts?: ArtifactHolding | undefined;
  /** Absent or null: the rows of the store are not encrypted. */
  readonly encryption?: EncryptionKeys | null;
}
