// A page about one thing: a named value on each line, and named lists.

import type { View } from "./view.ts";

export function field(name: string, value: string, { colors }: View): string {
  return `${colors.dim(`${name}:`)} ${value}`;
}

/** Nothing for null. */
export function optionalField(name: string, value: string | null, view: View): string[] {
  return value === null ? [] : [field(name, value, view)];
}

/** Nothing for an empty list. */
export function bulletList(name: string, texts: readonly string[], view: View): string[] {
  if (texts.length === 0) return [];
  return ["", field(`${name} (${texts.length})`, "", view).trimEnd(), ...texts.map((text) => `  - ${text}`)];
}
