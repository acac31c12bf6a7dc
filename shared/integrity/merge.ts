/**
 * JSON merge patch (RFC 7396): absent members stay, null removes, arrays are replaced, objects are merged.
 */
import { boundedText, redact } from "../protocol/redaction.ts";

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns a new value; neither argument is changed. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Json = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}

/** The dotted paths of the members that a patch changes, to the depth of its objects. */
export function patchedFields(patch: Json, root = ""): string[] {
  return Object.entries(patch).flatMap(([key, value]) => {
    const path = root === "" ? key : `${root}.${key}`;
    return isObject(value) && Object.keys(value).length > 0 ? patchedFields(value, path) : [path];
  });
}

const NAMED_MAX = 100;
const NAME_CHARS = 100;

/**
 * The paths in a form for an event or an audit entry: secrets in names are removed, long names are cut, over a
 * hundred only sections are named.
 */
export function namedFields(fields: readonly string[]): string[] {
  const clean = fields.map((field) => redact(field).text);
  const short = (name: string): string => boundedText(name, NAME_CHARS);
  if (fields.length <= NAMED_MAX) return clean.map(short);
  return [...new Set(clean.map((field) => short(field.split(".")[0] ?? field)))].slice(0, NAMED_MAX);
}
