// Reports what was done with credentials to the fleet, for the audit chain of their tenants. The register of credentials knows
// which acts are reported, so those of a time without a running fleet follow with the next command.

import type { GrantAct } from "../../../../shared/protocol/access-grant.ts";
import { DEFAULT_TENANT, isToken } from "../../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Session } from "../../runtime/session.ts";

type Act = GrantAct & { readonly tenant: string };

/** `url` undefined: no fleet runs. Never fails, because the act is done. */
export async function recordActs(session: Session, folder: string, url: string | undefined): Promise<void> {
  const { appendGrant, unrecordedActs } = await import("../../../../shared/bus/access/register/grants.ts");
  const { acts, through } = unrecordedActs(folder);
  if (acts.length === 0) return;
  try {
    if (url === undefined) throw new Error("no fleet runs");
    for (const tenant of new Set(acts.map(chainOf))) {
      const own = acts.filter((act) => chainOf(act) === tenant);
      await report(session, tenant, own);
    }
    appendGrant(folder, through);
  } catch (error) {
    session.warn({
      code: "NOT_RECORDED",
      text: "the audit chain has not got this yet; the next command that issues or revokes credentials repeats it",
      details: { acts: acts.length, reason: error instanceof Error ? error.message : "unknown" },
    });
  }
}

/** Services have no tenant. The chain of the default tenant has the acts of the whole fleet. */
const chainOf = ({ tenant }: Act): string => (isToken(tenant) ? tenant : DEFAULT_TENANT);

async function report(session: Session, tenant: string, acts: readonly Act[]): Promise<void> {
  await session.inTenant(tenant, async ({ admin }) => {
    for (let from = 0; from < acts.length; from += LIMITS.access_acts_count_max) {
      const some = acts.slice(from, from + LIMITS.access_acts_count_max);
      await admin.recordAccess(
        some.map(({ tenant: _, ...act }) => act),
        session.deadline,
      );
    }
  });
}
