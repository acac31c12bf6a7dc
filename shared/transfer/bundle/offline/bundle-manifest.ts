/** The form of manifest.json. */
import { isMemberName } from "./archive.ts";
import { type ExactObject, exactTime, isCountFrom, isExactObject, isHexHash } from "./exact-json.ts";

/** 2: the seal states the end of the access log, and the time of what it states. */
export const BUNDLE_FORMAT = 2;
export const BUNDLE_KIND = "fleet-evidence";

/** Whether another version of the verifier reads the bundle. */
export function isOfOtherFormat(manifest: ExactObject | null): boolean {
  return (
    manifest?.kind === BUNDLE_KIND && isCountFrom(1, manifest.format) && manifest.format !== BUNDLE_FORMAT
  );
}

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
        isMemberName(one.name) &&
        isCountFrom(0, one.size) &&
        isHexHash(one.sha256),
    )
  );
}
