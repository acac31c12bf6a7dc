// A page about one thing: a named value on each line, and named lists.

import type { View } from "./view.ts";

export function field(name: string, value: string, { colors }: View): string {
  return `${colors.dim(`${name}:`)} ${value}`;
}

/** Nothing for an empty list. */
export function bulletList(name: string, texts: readonly string[], view: View): string[] {
  if (texts.length === 0) return [];
  return ["", field(`${name} (${texts.length})`, "", view).trimEnd(), ...texts.map((text) => `  - ${text}`)];
}
