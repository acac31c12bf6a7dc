/** The context of a reader. */
import type { Bus } from "../../shared/bus/bus.ts";
import type { Format } from "../../shared/records/kv/format.ts";
import type { DiskSpace } from "../../shared/runtime/disk-space.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import type { Store } from "../../shared/store/store.ts";
import type { ReaderConfig } from "./config.ts";

export interface ReaderContext extends ServiceContext {
  readonly store: Store;
  readonly bus: Bus;
  readonly format: Format;
  /** The name of this instance in leases. */
  readonly instance: string;
  readonly config: ReaderConfig;
  readonly disk: DiskSpace;
}
