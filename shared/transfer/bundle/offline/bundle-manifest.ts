/** The form of manifest.json. */
import { type ExactObject, exactTime, isCountFrom, isExactObject, isHexHash } from "./exact-json.ts";

export const BUNDLE_FORMAT = 1;
export const BUNDLE_KIND = "fleet-evidence";

export function isManifest({
  kind,
  format,
  tenant,
  fleet,
  exported_at,
  mtime,
  files,
  counts,
}: ExactObject): boolean {
  return (
    kind === BUNDLE_KIND &&
    format === BUNDLE_FORMAT &&
    typeof tenant === "string" &&
    (fleet === null || typeof fleet === "string") &&
    exactTime(exported_at) !== null &&
    isCountFrom(0, mtime) &&
    isExactObject(counts) &&
    Array.isArray(files) &&
    (files as readonly ExactObject[]).every(
      (one) =>
        isExactObject(one) &&
        typeof one.name === "string" &&
        isCountFrom(0, one.size) &&
        isHexHash(one.sha256),
    )
  );
}
