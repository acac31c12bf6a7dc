/** The repository as a service uses it: what it finds corrupt is counted and said aloud, whichever service met it. */
import type { Format } from "../records/kv/format.ts";
import { CheckpointRepository, type RepositoryOptions } from "../records/repository.ts";
import type { ServiceContext } from "../runtime/process/service.ts";
import type { Store } from "../store/store.ts";

/** `finder`: the service, as the audit trail shall name it. */
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
