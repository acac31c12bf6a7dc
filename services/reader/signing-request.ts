/** What a person would sign now, with the identity providers that the fleet accepts. */
import { esignPolicy } from "../../shared/integrity/esign/statement.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { SigningRequest } from "../../shared/protocol/esign.ts";
import type { EsignIssuerSettings } from "../../shared/protocol/esign-settings.ts";
import type { QueryParams } from "../../shared/protocol/queries.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";

interface RequestContext {
  readonly repository: Pick<CheckpointRepository, "esignatures">;
  readonly issuers: readonly EsignIssuerSettings[];
  readonly now: () => number;
}

export function createSigningRequest({ repository, issuers, now }: RequestContext) {
  return async (tenant: string, query: QueryParams<"signing_request">): Promise<SigningRequest> => {
    const accepted = issuers.filter(({ tenants }) => tenants.includes(tenant));
    if (accepted.length === 0)
      throw new FleetError("NOT_FOUND", "no identity provider is configured for signatures of this tenant", {
        details: { tenant, setting: "FLEET_ESIGN_ISSUERS" },
      });
    return {
      subject: await repository.esignatures.subject(tenant, query),
      at: new Date(now()).toISOString(),
      issuers: accepted.map(({ acr_values, ...settings }) => ({
        issuer: settings.issuer,
        client_id: settings.client_id,
        scope: settings.scope,
        name_claim: settings.name_claim,
        ...(acr_values !== undefined && { acr_values }),
        ...(settings.passkeys !== undefined && { passkeys: { rp_id: settings.passkeys.rp_id } }),
        policy: esignPolicy({ ...settings, ...(acr_values !== undefined && { acr_values }) }),
      })),
    };
  };
}
