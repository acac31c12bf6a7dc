/**
 * A folder for the programs of the fleet's user outside of its container: address, identity, authority and the keys of clients. Copied to
 * `.fleet` of another machine, it is a home without data. A copy of the whole home would hold the store and the keys of the fleet.
 */
import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { copyClientKeys } from "../../../shared/bus/access/keys.ts";
import { ACCESS_FOLDER } from "../../../shared/bus/access/local-credentials.ts";
import { writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { RECORD_FILE } from "../../../shared/sdk/fleet-home.ts";

const CA_FILE = "ca.pem";
const FOLDER_MODE = 0o700;
const PUBLIC = 0o644;

export interface ClientFolderContent {
  readonly busUrl: string;
  /** undefined: the operations ports are not open to them. */
  readonly opsUrl: string | undefined;
  readonly gatewayUrl: string | undefined;
  readonly fleet: string;
  readonly caFile: string;
  /** The folder of the fleet's keys. Absent: the bus has no credentials. */
  readonly keys: string | undefined;
}

export function writeClientFolder(
  folder: string,
  { busUrl, opsUrl, gatewayUrl, fleet, caFile, keys }: ClientFolderContent,
): void {
  mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  chmodSync(folder, FOLDER_MODE);
  writeWhole(join(folder, CA_FILE), readFileSync(caFile), PUBLIC);
  if (keys !== undefined) copyClientKeys(keys, join(folder, ACCESS_FOLDER));
  // Without `home`, which is a path of this machine, and without the process, which other machines do not have.
  const record = { busUrl, opsUrl, gatewayUrl, busCa: CA_FILE, fleet };
  writeWhole(join(folder, RECORD_FILE), `${JSON.stringify(record)}\n`, PUBLIC);
}
