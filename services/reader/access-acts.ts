/** Acts with credentials, which are carried out where the keys are, and reported for the audit chain. */
import type { GrantAct } from "../../shared/protocol/access-grant.ts";
import type { ReportedAct } from "../../shared/records/audit/tenant-acts.ts";
import type { TenantCaller } from "../../shared/records/audit/tenant-audit.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";

export async function recordAccess(
  { tenantActs }: CheckpointRepository,
  by: TenantCaller,
  acts: readonly GrantAct[],
): Promise<{ readonly recorded: number }> {
  return { recorded: await tenantActs.record(by, distinct(acts.map(reported))) };
}

function reported({ act, id, role, name }: GrantAct): ReportedAct {
  const action = act === "issue" ? "credentials_issue" : "credentials_revoke";
  return { action, subject: { credentials: id, name, role }, occasion: `${action}/${id}` };
}

const distinct = (acts: readonly ReportedAct[]): ReportedAct[] => [
  ...new Map(acts.map((act) => [act.occasion, act])).values(),
];
