/** Files in the folder of a fleet's keys. */
import { existsSync } from "node:fs";
import { join } from "node:path";

/** The register of issued credentials. */
export const REGISTER_FILE = "grants.jsonl";

/** The public name of the account, in a copy for clients, which has no key of the account. */
export const ACCOUNT_NAME_FILE = "account.pub";

/** True if a fleet has made its keys in this folder. */
export function hasKeys(folder: string): boolean {
  return existsSync(join(folder, "operator.nk"));
}

/** True for a copy that lets its user act as a client and nothing else. */
export function hasClientKeys(folder: string): boolean {
  return !hasKeys(folder) && existsSync(join(folder, ACCOUNT_NAME_FILE));
}
