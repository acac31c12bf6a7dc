/**
 * The files that a fleet of separate processes needs: the configuration of its nats-server, with the rights of
 * each role, and one credentials file for each service. Only the user who made them can read them.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { writeWhole } from "../../runtime/process/whole-file.ts";
import { FLEET_ID_BYTES, fleetServerName } from "../server-name.ts";
import { issueGrant } from "./administration.ts";
import { calloutClaims, serverClaims, signerCredentials } from "./claims.ts";
import { openCalloutKeys, openKeys } from "./keys.ts";
import { readGrants, revocationsOf } from "./register/grants.ts";
import { noteRights } from "./register/rights-history.ts";
import { accessConfig } from "./server-access.ts";
import { signerKeysText } from "./signer-keys.ts";

const SERVICES = ["writer", "reader", "coordinator", "watchdog"] as const;
/** No tenant and no agent has such a name, so a service is never one of them. */
const SERVICE_TENANT = "=";
const FOLDER_MODE = 0o700;
/** Relative to the working folder of the server, like its streams. */
const CLAIMS_FOLDER = ".fleet/claims";

export interface ClusterFiles {
  /** The folder of the fleet's keys. They are made if they are missing. */
  readonly keys: string;
  /** The folder for the files. */
  readonly dir: string;
  /** The server's configuration, which includes `access.conf`. */
  readonly serverConfig: string;
  /** True: also the files of a signing service. A folder that has them keeps them. */
  readonly signer?: boolean;
  readonly now: Date;
}

/**
 * Returns the paths of all files. A credentials file that exists is kept, so that a repetition only brings the
 * configuration up to date.
 */
export async function writeClusterFiles(o: ClusterFiles): Promise<string[]> {
  const { keys, dir, serverConfig, now } = o;
  mkdirSync(dir, { recursive: true, mode: FOLDER_MODE });
  const paths = [join(dir, "nats.conf"), join(dir, "access.conf")] as const;
  const fleetKeys = openKeys(keys);
  for (const role of SERVICES) {
    const path = join(dir, `${role}.creds`);
    if (existsSync(path)) continue;
    const name = `=${role}`;
    const issued = await issueGrant(keys, { role, tenant: SERVICE_TENANT, name, expiresAt: null, now });
    writeWhole(path, issued.credentials);
  }
  const signerPaths = [join(dir, "signer.creds"), join(dir, "signer.keys")] as const;
  const callout = o.signer === true || existsSync(signerPaths[1]) ? openCalloutKeys(keys) : undefined;
  if (callout !== undefined) {
    writeWhole(signerPaths[0], await signerCredentials(callout));
    writeWhole(signerPaths[1], signerKeysText(fleetKeys, callout));
  }
  noteRights(keys, now);
  const claims = await serverClaims(fleetKeys, revocationsOf(readGrants(keys)));
  const forSigner = callout && (await calloutClaims(fleetKeys, callout));
  writeWhole(paths[1], accessConfig(claims, CLAIMS_FOLDER, forSigner));
  writeWhole(paths[0], withIdentity(serverConfig, fleetKeys.account.getPublicKey()));
  const services = SERVICES.map((role) => join(dir, `${role}.creds`));
  return [...paths, ...services, ...(callout === undefined ? [] : signerPaths)];
}

/** The fleet is known by its account, so every repetition and every server of the fleet announces the same identity. */
function withIdentity(serverConfig: string, account: string): string {
  const fleet = createHash("sha256")
    .update(account)
    .digest("hex")
    .slice(0, 2 * FLEET_ID_BYTES);
  return serverConfig.replace(/^server_name: .*$/m, `server_name: ${fleetServerName(fleet, "nats-1")}`);
}
