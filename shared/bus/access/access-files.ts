/** Files in the folder of a fleet's keys. */
import { existsSync } from "node:fs";
import { join } from "node:path";

/** The register of issued credentials. */
export const REGISTER_FILE = "grants.jsonl";

/** True if a fleet has made its keys in this folder. */
export function hasKeys(folder: string): boolean {
  return existsSync(join(folder, "operator.nk"));
}
