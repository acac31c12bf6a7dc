// The fleet of a spool: whether it still exists, and the settings with which its commands are sent to it and to no other.

import { resolve } from "node:path";
import { findRecord } from "../../../shared/sdk/fleet-home.ts";
import type { ListedSpool } from "../../../shared/sdk/spool/spool-list.ts";
import type { Session } from "./session.ts";

/**
 * `recorded`: in its home, running or not. `replaced`: its home has another fleet now. `deleted`: its home has no fleet any more.
 * `address`: known by its address only.
 */
export type FleetState = "recorded" | "replaced" | "deleted" | "address";

export function fleetState({ note }: Pick<ListedSpool, "note">): FleetState {
  if (note === undefined || note.home === null) return "address";
  const record = findRecord(note.home);
  if (record === undefined) return "deleted";
  return note.fleet === null || record.fleet === note.fleet ? "recorded" : "replaced";
}

/** Variables over those of the call. A folder that the call names keeps the address of the call. */
export function fleetEnvironment(
  { context, settings }: Session,
  spool: ListedSpool,
): Readonly<Record<string, string>> {
  const { note, folder } = spool;
  const isNamed =
    context.env.FLEET_SPOOL_DIR !== undefined && resolve(context.env.FLEET_SPOOL_DIR) === resolve(folder);
  if (isNamed || note === undefined || settings.url !== undefined) return { FLEET_SPOOL_DIR: folder };
  if (note.home !== null) return { FLEET_SPOOL_DIR: folder, FLEET_HOME: note.home, FLEET_URL: "" };
  return { FLEET_SPOOL_DIR: folder, FLEET_URL: note.url };
}
