/**
 * Generated documents as text: JSON in the style of the project's formatter, and YAML with one line for each
 * value, so that a change of the protocol changes only the lines that it concerns.
 */
import { stringify } from "yaml";

const WIDTH = 110;

type Tree = unknown;

function isScalar(value: Tree): boolean {
  return typeof value !== "object" || value === null;
}

/** Puts short lists of plain values on one line, and every other member on its own line. */
export function jsonText(value: Tree, indent = "", before = 0): string {
  if (isScalar(value)) return JSON.stringify(value);
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    const line = `[${value.map((item) => JSON.stringify(item)).join(", ")}]`;
    if (value.every(isScalar) && indent.length + before + line.length < WIDTH) return line;
    return `[\n${value.map((item) => inner + jsonText(item, inner)).join(",\n")}\n${indent}]`;
  }
  const members = Object.entries(value as object).map(([key, member]) => {
    const name = `${JSON.stringify(key)}: `;
    return inner + name + jsonText(member, inner, name.length);
  });
  return members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n${indent}}`;
}

/** Block style without folded lines or aliases: each value stands on one line, at its own place. */
export function yamlText(value: Tree): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}
