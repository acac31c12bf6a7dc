/**
 * Reports a damaged head, or a damaged open handoff, that prevents the recording of a failure. No recovery
 * can continue such a task, and the next scrub may be a day away, so the damage is kept as a finding now and
 * the scrubber alerts operators. Each task is reported once in the life of this process.
 */
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { RecoveryPlace } from "../../../shared/records/recovery/due.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";

/** Reported tasks that are remembered. A forgotten one is examined again. */
const REPORTED_MAX = 10_000;

/** Ignores an error that reports no damage. Never rejects: the error that led here is the one to handle. */
export type ReportDamage = (place: RecoveryPlace, error: unknown) => Promise<void>;

export function createDamageReporter(
  { log, metrics }: ServiceContext,
  repository: Pick<CheckpointRepository, "keepReportedDamage">,
): ReportDamage {
  const reported = new Set<string>();
  return async ({ tenant, task }, error) => {
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") return;
    const name = `${tenant}/${task}`;
    if (reported.has(name)) return;
    if (reported.size >= REPORTED_MAX) reported.clear();
    reported.add(name);
    try {
      for (const { kind, details } of await repository.keepReportedDamage(tenant, task)) {
        metrics.scrubFindingsTotal.inc({ kind });
        log.error({ tenant, task_id: task, kind, details }, "a record of a task is damaged");
      }
    } catch (cause) {
      reported.delete(name);
      log.warn({ error: cause, tenant, task_id: task }, "a damaged record could not be kept as a finding");
    }
  };
}
