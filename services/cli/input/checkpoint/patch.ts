// Misspelled fields in a patch. Unknown fields are allowed and kept, so without this check `pahse` would change nothing
// and no error would say why.

import { readFile } from "node:fs/promises";
import { nearestName } from "../../../../shared/runtime/settings/did-you-mean.ts";

/** The parts of a JSON Schema that name its members. */
export interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

export interface Misspelling {
  /** The dotted path, as in error answers. */
  readonly path: string;
  readonly meant: string;
}

/** A shorter name is close to too many others. */
const LETTERS_MIN = 4;

const SCHEMA = new URL("../../../../shared/protocol/schemas/checkpoint-input.json", import.meta.url);

/** The schema of a checkpoint as agents write it, from its generated file: deriving it would take longer than the call. */
export async function checkpointShape(): Promise<Shape> {
  return JSON.parse(await readFile(SCHEMA, "utf8")) as Shape;
}

/** The members that the schema does not know and whose names are close to one that it knows. */
export function misspellingsOf(value: unknown, shape: Shape, path: readonly string[] = []): Misspelling[] {
  if (typeof value !== "object" || value === null) return [];
  const forms = [shape, ...(shape.anyOf ?? [])];
  if (Array.isArray(value)) {
    const items = forms.find((form) => form.items !== undefined)?.items ?? {};
    return value.flatMap((item, i) => misspellingsOf(item, items, [...path, String(i)]));
  }
  const known = forms.find((form) => form.properties !== undefined)?.properties ?? {};
  return Object.entries(value).flatMap(([name, inner]) => {
    const own = [...path, name];
    if (Object.hasOwn(known, name)) return misspellingsOf(inner, known[name]!, own);
    const meant = name.length < LETTERS_MIN ? undefined : nearestName(name, Object.keys(known));
    return meant === undefined ? [] : [{ path: own.join("."), meant }];
  });
}
