// Slips of the keyboard in a patch. Unknown fields are welcome and are kept, so nobody else would ever say that
// `pahse` changed nothing.

import { readFile } from "node:fs/promises";
import { nearestName } from "../../../shared/runtime/settings/did-you-mean.ts";

/** Of a JSON Schema, what names its members. */
export interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

export interface Misspelling {
  /** Dotted, as in error answers. */
  readonly path: string;
  readonly meant: string;
}

/** Below this length everything is near to something. */
const LETTERS_LEAST = 4;

const SCHEMA = new URL("../../../shared/protocol/schemas/checkpoint-input.json", import.meta.url);

/** A checkpoint as an agent may write it. From its generated file: deriving it again would take longer than the call. */
export async function checkpointShape(): Promise<Shape> {
  return JSON.parse(await readFile(SCHEMA, "utf8")) as Shape;
}

/** Members that the schema does not know and whose name is close to one that it knows. */
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
    const meant = name.length < LETTERS_LEAST ? undefined : nearestName(name, Object.keys(known));
    return meant === undefined ? [] : [{ path: own.join("."), meant }];
  });
}
