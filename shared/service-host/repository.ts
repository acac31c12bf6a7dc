/**
 * The repository as a service uses it: every corrupt checkpoint is counted and logged, by the service that
 * reads it.
 */
import type { Format } from "../records/kv/format.ts";
import { CheckpointRepository, type RepositoryOptions } from "../records/repository.ts";
import type { ServiceContext } from "../runtime/process/service.ts";
import type { Store } from "../store/store.ts";

/** `finder` is the name of the service in the audit trail. */
export function openRepository(
  { store, format, clock, log, metrics }: ServiceContext & { readonly store: Store; readonly format: Format },
  options: Omit<RepositoryOptions, "store" | "format" | "now" | "onCorrupt">,
): CheckpointRepository {
  return new CheckpointRepository({
    ...options,
    store,
    format,
    now: () => clock.now(),
    onCorrupt: (task, corrupt) => {
      metrics.checkpointCorruptTotal.inc();
      log.error({ task_id: task, ...corrupt }, "a stored checkpoint is corrupt and was quarantined");
    },
  });
}
