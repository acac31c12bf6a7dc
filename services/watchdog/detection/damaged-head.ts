/**
 * The damaged head of a task, or its open handoff, met where a failure should have been noted: nothing can be done about such a task, and the
 * scrub may be a day away. So it is kept as a finding, about which whoever scrubs tells people; once for each task while this process lives.
 */
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { RecoveryPlace } from "../../../shared/records/recovery/due.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";

/** Tasks that were met; forgetting them costs a look. */
const MET_MAX = 10_000;

/** Never rejects: the failure that led here is what counts. Does nothing about other errors. */
export type MeetDamage = (place: RecoveryPlace, error: unknown) => Promise<void>;

export function createMeetingDamage(
  { log, metrics }: ServiceContext,
  repository: Pick<CheckpointRepository, "keepMet">,
): MeetDamage {
  const met = new Set<string>();
  return async ({ tenant, task }, error) => {
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") return;
    const name = `${tenant}/${task}`;
    if (met.has(name)) return;
    if (met.size >= MET_MAX) met.clear();
    met.add(name);
    try {
      for (const { kind, details } of await repository.keepMet(tenant, task)) {
        metrics.scrubFindingsTotal.inc({ kind });
        log.error({ tenant, task_id: task, kind, details }, "a record of a task is damaged");
      }
    } catch (cause) {
      met.delete(name);
      log.warn({ error: cause, tenant, task_id: task }, "a damaged record could not be kept as a finding");
    }
  };
}
