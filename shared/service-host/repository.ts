/**
 * The repository as a service uses it: every corrupt checkpoint is counted and logged, by the service that
 * reads it.
 */
import type { Format } from "../records/kv/format.ts";
import { CheckpointRepository, type RepositoryOptions } from "../records/repository.ts";
import type { ServiceContext } from "../runtime/process/service.ts";
import type { Store } from "../store/store.ts";
import { copiesIn, type Mirror } from "./mirror.ts";

export interface RepositoryContext extends ServiceContext {
  readonly store: Store;
  readonly format: Format;
  readonly mirror?: Mirror | undefined;
}

/** `finder` is the name of the service in the audit trail. */
export function openRepository(
  { store, format, clock, log, metrics, mirror }: RepositoryContext,
  options: Pick<RepositoryOptions, "finder" | "policies">,
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
    copies: copiesIn(mirror),
    onRestored: (task, restored) => {
      metrics.checkpointRestoredTotal.inc();
      log.warn(
        { task_id: task, ...restored },
        "a stored checkpoint was lost or corrupt and was restored from the file mirror",
      );
    },
    onMissingCopy: (task, checkpoint_id) =>
      log.warn({ task_id: task, checkpoint_id }, "the file mirror has no copy of a checkpoint that is used"),
  });
}
