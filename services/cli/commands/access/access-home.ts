// The keys of the fleet in its home, for the commands that issue and revoke credentials.

import { join } from "node:path";
import type { RegisteredGrant } from "../../../../shared/bus/access/register/grants.ts";
import { invalid } from "../../../../shared/protocol/errors.ts";
import { DEFAULT_TENANT, isToken } from "../../../../shared/protocol/ids.ts";
import { principalToken } from "../../../../shared/protocol/principal.ts";
import { type ClientRole, isRoleOfPerson } from "../../../../shared/protocol/roles.ts";
import { parseDuration } from "../../../../shared/runtime/settings/duration.ts";
import { namedAddress } from "../../runtime/address.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { recordActs } from "./access-acts.ts";

/** Later times have no ISO form with four digits. */
const LAST_END_MS = Date.UTC(10_000, 0);

export interface PrincipalFlags {
  readonly agent: string;
  readonly tenant?: string;
  readonly role: ClientRole;
}

/** Throws INVALID. */
export function principalOf(
  session: Session,
  { agent, role, ...flags }: PrincipalFlags,
): { readonly tenant: string; readonly name: string } {
  const tenant = tenantOf(session, flags);
  if (!isToken(agent)) throw invalid("--agent", "1 to 64 characters of A-Z a-z 0-9 _ -", agent);
  if (!isToken(tenant)) throw invalid("--tenant", "1 to 64 characters of A-Z a-z 0-9 _ -", tenant);
  return {
    tenant,
    name: principalToken({ kind: isRoleOfPerson(role) ? "human" : "agent", name: agent }),
  };
}

/** Revokes what `isMeant` chooses of the valid credentials. `isApplied`: the running server refuses them from now on. */
export async function revokeCredentials(
  session: Session,
  isMeant: (grant: RegisteredGrant) => boolean,
): Promise<{ readonly revoked: readonly RegisteredGrant[]; readonly isApplied: boolean }> {
  const folder = await existingFolder(session);
  const { revokeGrants, updateServer } = await import("../../../../shared/bus/access/administration.ts");
  const revoked = revokeGrants(folder, isMeant, new Date(session.context.now()));
  if (revoked.length === 0) return { revoked, isApplied: true };
  // Without a running fleet, its next start applies the revocation.
  const url = await runningFleet(session);
  const { tlsFor } = await import("../../../../shared/sdk/address.ts");
  if (url !== undefined) await updateServer(folder, { url, ...tlsFor(url, session.context.env) });
  await recordActs(session, folder, url);
  return { revoked, isApplied: url !== undefined };
}

/** The fleet that the call or the environment names, such as a cluster, else the one that runs in the home. */
export async function runningFleet(session: Session): Promise<string | undefined> {
  const named = namedAddress(session.settings, session.context.env);
  if (named !== undefined) return named.url;
  const { readRecord } = await import("../../../../shared/sdk/fleet-home.ts");
  const record = readRecord(await fleetHomeOf(session));
  return record?.isRunning === true ? record.url : undefined;
}

export async function fleetHomeOf({ context }: Session): Promise<string> {
  const fleetHome = await import("../../../../shared/sdk/fleet-home.ts");
  return fleetHome.homeOf(context.env);
}

export async function existingFolder(session: Session): Promise<string> {
  const { ACCESS_FOLDER } = await import("../../../../shared/bus/access/local-credentials.ts");
  const { hasClientKeys, hasKeys } = await import("../../../../shared/bus/access/access-files.ts");
  const folder = join(await fleetHomeOf(session), ACCESS_FOLDER);
  if (hasKeys(folder)) return folder;
  if (hasClientKeys(folder)) {
    throw new UsageError(
      `${folder} has keys of clients only`,
      `Run this where the fleet runs, such as \`docker compose exec fleet node deploy/local/fleet.mjs access\`.`,
    );
  }
  throw new UsageError(
    `there are no keys of a fleet in ${folder}`,
    `Run this in the folder of the fleet, or set FLEET_HOME; \`${session.programName} up\` and \`${session.programName} access init\` make the keys.`,
  );
}

function tenantOf(session: Session, flags: Pick<PrincipalFlags, "tenant">): string {
  return flags.tenant ?? session.settings.tenant ?? session.context.env.FLEET_TENANT ?? DEFAULT_TENANT;
}

export function expiryOf(text: string, now: Date): Date | null {
  if (text === "never") return null;
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0)
    throw invalid("--expires", "a time with its unit, such as 8h or 30d, or never", text);
  const end = new Date(now.getTime() + ms);
  if (!(end.getTime() < LAST_END_MS))
    throw invalid("--expires", "a time before the year 10000, or never", text);
  return end;
}
