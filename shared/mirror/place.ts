/**
 * The paths in the folder of the mirror (seed 002, "File Backup Schema"): `checkpoints/<task>/chk-<id>.json`, and `checkpoints/=<tenant>/<task>/…`
 * for tenants other than the default one. No task or tenant contains `=` or `.`, so no name can collide with another or leave the folder.
 */
import { join } from "node:path";
import { invalid } from "../protocol/errors.ts";
import { DEFAULT_TENANT, isCheckpointId, isToken, prefixedCheckpointId } from "../protocol/ids.ts";

export interface MirroredTask {
  readonly tenant: string;
  readonly task: string;
}

export const LATEST_FILE = "latest.json";
export const AUDIT_FILE = "audit.jsonl";
export const POSITION_FILE = "position.json";
const TENANT_MARK = "=";
const SUFFIX = ".json";
/** Behind the name of a sealed file. */
export const SEALED_SUFFIX = ".enc";

/** The folder of the files, below the one that operators name. */
export function rootOf(folder: string): string {
  return join(folder, "checkpoints");
}

/** The folders from the root down to that of the task. Throws INVALID. */
export function foldersOf(root: string, { tenant, task }: MirroredTask): string[] {
  if (!isToken(tenant)) throw invalid("tenant", "a name of a tenant", tenant);
  if (!isToken(task)) throw invalid("task", "a name of a task", task);
  const above = tenant === DEFAULT_TENANT ? [] : [join(root, TENANT_MARK + tenant)];
  return [...above, join(above[0] ?? root, task)];
}

/** Throws INVALID. */
export function fileName(id: string): string {
  if (!isCheckpointId(id)) throw invalid("checkpoint_id", "a UUIDv7 in lower case", id);
  return prefixedCheckpointId(id) + SUFFIX;
}

/** The id in the name of a file, sealed or not; null: it is no checkpoint. */
export function idOfFile(file: string): string | null {
  const name = file.endsWith(SEALED_SUFFIX) ? file.slice(0, -SEALED_SUFFIX.length) : file;
  const id = name.slice(prefixedCheckpointId("").length, -SUFFIX.length);
  return isCheckpointId(id) && fileName(id) === name ? id : null;
}

/** The tenant in the name of a folder; null: it is the folder of a task. */
export function tenantOfFolder(name: string): string | null {
  const tenant = name.slice(TENANT_MARK.length);
  return name.startsWith(TENANT_MARK) && isToken(tenant) ? tenant : null;
}
