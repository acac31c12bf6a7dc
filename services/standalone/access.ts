/** The keys of the standalone fleet: created at its first start, together with credentials for its own services. */
import { chmodSync, statSync } from "node:fs";
import { join } from "node:path";
import { issueCredentials, type ServerClaims, serverClaims } from "../../shared/bus/access/claims.ts";
import { openKeys } from "../../shared/bus/access/keys.ts";
import { ACCESS_FOLDER } from "../../shared/bus/access/local-credentials.ts";
import { readGrants, revocationsOf } from "../../shared/bus/access/register/grants.ts";
import { noteRights } from "../../shared/bus/access/register/rights-history.ts";
import { writeWhole } from "../../shared/runtime/process/whole-file.ts";

const OTHERS_WRITE = 0o022;

export interface StandaloneAccess {
  /** The current claims, with what was revoked since. */
  readonly claims: () => Promise<ServerClaims>;
  readonly credentialsFile: string;
}

export async function openAccess(home: string): Promise<StandaloneAccess> {
  const folder = join(home, ACCESS_FOLDER);
  const keys = openKeys(folder);
  const account = keys.account.getPublicKey();
  const { text } = await issueCredentials(
    { role: "standalone", tenant: "=", name: "standalone" },
    { account, signer: keys.roles.standalone },
  );
  const credentialsFile = join(folder, "standalone.creds");
  writeWhole(credentialsFile, text);
  noteRights(folder, new Date());
  return { claims: () => serverClaims(keys, revocationsOf(readGrants(folder))), credentialsFile };
}

/** A user who can write to the home could replace the folder of the keys, or the address that clients find there. */
export function keepOthersOut(home: string): void {
  const { mode, uid } = statSync(home);
  if ((mode & OTHERS_WRITE) !== 0 && uid === process.getuid?.())
    chmodSync(home, mode & 0o777 & ~OTHERS_WRITE);
}
