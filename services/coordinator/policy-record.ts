/** Records in the audit chain which policies this fleet applies, if they differ from those of the last start. */
import { FleetError } from "../../shared/protocol/errors.ts";
import { DEFAULT_TENANT } from "../../shared/protocol/ids.ts";
import type { Policies } from "../../shared/protocol/policy.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { withRetries } from "../../shared/runtime/retry.ts";

/** Until the store answers; the next start repeats it. */
const RETRIES = {
  attempts: Infinity,
  baseMs: 500,
  maxMs: 30_000,
  retryable: (error: unknown) => error instanceof FleetError && error.retryable,
};

export function startPolicyRecord(
  { clock, log }: Pick<ServiceContext, "clock" | "log">,
  { tenantActs }: Pick<CheckpointRepository, "tenantActs">,
  policies: Policies,
): Stop {
  const stopping = new AbortController();
  const { signal } = stopping;
  // Policies concern all tenants. The chain of the default tenant has the acts of the whole fleet.
  const report = { tenant: DEFAULT_TENANT, service: "coordinator", policies };
  const recording = withRetries({ ...RETRIES, clock, signal }, () => tenantActs.recordPolicies(report)).then(
    (isChange) => isChange && log.info("the fleet applies other policies than before"),
    (error: unknown) => log.error({ error }, "the change of the policies could not be recorded"),
  );
  return async () => {
    stopping.abort();
    await recording;
  };
}
