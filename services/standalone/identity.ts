/**
 * The identity of a standalone fleet: a random id, recorded in its home at the first start. A home that is deleted and made again belongs
 * to another fleet, although the address is the same. So does a copy of a home beside its original.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { FLEET_ID_BYTES, isFleetId } from "../../shared/bus/server-name.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { NewerFile, readJson, writeOnce, writeWhole } from "../../shared/runtime/process/whole-file.ts";
import { copiedFrom } from "../../shared/sdk/fleet-home.ts";

export const IDENTITY_FILE = "fleet.json";

/** Throws StartupError if the recorded identity cannot be read: a new one would orphan the commands that wait for the fleet. */
export function openIdentity(home: string): string {
  const path = join(home, IDENTITY_FILE);
  try {
    const made = { fleet: randomBytes(FLEET_ID_BYTES).toString("hex"), created_at: new Date().toISOString() };
    if (copiedFrom(home) !== undefined) {
      writeWhole(path, `${JSON.stringify(made)}\n`);
      return made.fleet;
    }
    const known = readJson<Partial<typeof made>>(path);
    if (known === undefined && writeOnce(path, `${JSON.stringify(made)}\n`)) return made.fleet;
    const { fleet } = known ?? readJson<Partial<typeof made>>(path) ?? {};
    if (isFleetId(fleet)) return fleet;
    throw new Error("it has no identity");
  } catch (error) {
    if (error instanceof NewerFile) throw error;
    throw new StartupError("the identity of the fleet cannot be read", {
      exitCode: exitCodes.cannotCreate,
      details: { path, problem: (error as NodeJS.ErrnoException).code ?? (error as Error).message },
      hint: "restore the file, or delete it: commands that wait for this fleet on its users' disks then need `fleet spool redirect`",
      cause: error,
    });
  }
}
