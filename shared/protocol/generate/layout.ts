/**
 * Generated documents as text: JSON in the form that the project's formatter gives it, and YAML with one line for each value, so that
 * a change of the protocol shows as a change of the lines that it touches.
 */

const WIDTH = 110;

type Tree = unknown;

function isScalar(value: Tree): boolean {
  return typeof value !== "object" || value === null;
}

/** Short lists of plain values stand on one line, everything else on lines of its own. */
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

// What YAML could take for a number, a boolean, null or a piece of its own syntax is quoted; JSON's quotes are YAML's too.
const PLAIN = /^[A-Za-z_$/][\w $/.,()-]*[\w)/.]$|^[A-Za-z_]$/;
const RESERVED = /^(?:y|n|yes|no|on|off|true|false|null|nan|inf)$/i;

function scalarText(value: Tree): string {
  const isPlain = typeof value === "string" && PLAIN.test(value) && !RESERVED.test(value);
  return isPlain ? value : JSON.stringify(value);
}

function isEmpty(value: Tree): boolean {
  return Object.keys(value as object).length === 0;
}

/** Block style; empty objects and lists as in JSON. */
export function yamlText(value: Tree, indent = ""): string {
  if (isScalar(value) || isEmpty(value))
    return `${indent}${isScalar(value) ? scalarText(value) : JSON.stringify(value)}\n`;
  if (Array.isArray(value)) {
    return value.map((item) => `${indent}- ${yamlText(item, `${indent}  `).trimStart()}`).join("");
  }
  return Object.entries(value as object)
    .map(([key, member]) => {
      const name = `${indent}${scalarText(key)}:`;
      return isScalar(member) || isEmpty(member)
        ? `${name} ${yamlText(member)}`
        : `${name}\n${yamlText(member, `${indent}  `)}`;
    })
    .join("");
}
