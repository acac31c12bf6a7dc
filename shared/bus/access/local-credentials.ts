/**
 * Credentials for the programs of the fleet's own user: they read the signing key of their role in the fleet's
 * home, so a developer's machine needs no credentials files. Other users cannot read the keys.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Grant } from "./claims.ts";

/** The folder of the keys in a fleet's home. */
export const ACCESS_FOLDER = "access";

/** undefined: this user has no key of the role in that home. */
export async function issueLocally(home: string, grant: Grant): Promise<string | undefined> {
  const folder = join(home, ACCESS_FOLDER);
  if (!existsSync(folder)) return undefined;
  // Loaded only here, because most programs of a fleet on other machines have a credentials file.
  const { readAccountName, readRoleKey } = await import("./keys.ts");
  const account = readAccountName(folder);
  const signer = readRoleKey(folder, grant.role);
  if (account === undefined || signer === undefined) return undefined;
  const { issueCredentials } = await import("./claims.ts");
  return (await issueCredentials(grant, { account, signer })).text;
}
