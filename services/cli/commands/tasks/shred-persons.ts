// Whether the two persons of a shredding had credentials of their own. The user of the fleet makes credentials for any name,
// and no act states the credentials that it came with, so only the register of issued ones can tell.

import { join } from "node:path";
import type { RegisteredGrant } from "../../../../shared/bus/access/register/grants.ts";
import type { TaskShred } from "../../../../shared/protocol/shred.ts";
import type { Session } from "../../runtime/session.ts";
import { fleetHomeOf } from "../access/access-home.ts";

/** The names of a shredding that had no issued credentials when they acted. */
export type UnissuedNamesOf = (
  acts: Pick<TaskShred, "requested_by" | "requested_at" | "approved_by" | "approved_at">,
) => readonly string[];

/** null: the register is not on this machine, cannot be read, or is that of another fleet. Never fails, because the act is done. */
export async function unissuedNames(session: Session): Promise<UnissuedNamesOf | null> {
  const { fleetId, tenant } = await session.client();
  try {
    const grants = await grantsOf(session, fleetId);
    if (grants === null) return null;
    const { isGrantValidAt } = await import("../../../../shared/bus/access/register/grants.ts");
    const hadSome = (name: string, at: string): boolean =>
      grants.some((one) => one.tenant === tenant && one.name === name && isGrantValidAt(one, at));
    return ({ requested_by, requested_at, approved_by, approved_at }) => [
      ...(hadSome(requested_by, requested_at) ? [] : [requested_by]),
      ...(approved_by === null || approved_at === null || hadSome(approved_by, approved_at)
        ? []
        : [approved_by]),
    ];
  } catch {
    return null;
  }
}

async function grantsOf(
  session: Session,
  fleetId: string | undefined,
): Promise<readonly RegisteredGrant[] | null> {
  const { ACCESS_FOLDER } = await import("../../../../shared/bus/access/local-credentials.ts");
  const { hasKeys } = await import("../../../../shared/bus/access/access-files.ts");
  const { findRecord } = await import("../../../../shared/sdk/fleet-home.ts");
  const home = await fleetHomeOf(session);
  const folder = join(home, ACCESS_FOLDER);
  if (!hasKeys(folder) || fleetId === undefined || findRecord(home)?.fleet !== fleetId) return null;
  const { readGrants } = await import("../../../../shared/bus/access/register/grants.ts");
  return readGrants(folder);
}
