/**
 * Strict JSON: what `JSON.parse` accepts, minus duplicate member names (it keeps the last silently, so two
 * readers of one text could see different values), invalid UTF-8, and everything that the gate refuses.
 */

import { FleetError, invalid } from "../protocol/errors.ts";
import { parseJsonText, stringEnd } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import { gate } from "./gate.ts";

// A byte order mark stays in the text, where JSON.parse refuses it.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Members of all objects in a valid JSON text: the colons outside strings. */
function countMembers(text: string): number {
  let members = 0;
  let at = 0;
  for (;;) {
    const quote = text.indexOf('"', at);
    const end = quote === -1 ? text.length : quote;
    for (; at < end; at += 1) if (text.charCodeAt(at) === 58) members += 1;
    if (quote === -1) return members;
    at = stringEnd(text, quote);
  }
}

/**
 * Finds the first repeated name in a valid JSON text, as a dotted path. Slow and exact; used only for the
 * error.
 */
function duplicateName(text: string): string {
  const frames: { names: Set<string> | null; label: string; index: number }[] = [];
  let at = 0;
  let label = "";
  while (at < text.length) {
    const top = frames.at(-1);
    const char = text[at];
    if (char === '"') {
      const end = stringEnd(text, at);
      const after = text.slice(end).match(/^\s*:/);
      if (after && top?.names) {
        label = JSON.parse(text.slice(at, end)) as string;
        if (top.names.has(label)) return [...frames.slice(1).map((frame) => frame.label), label].join(".");
        top.names.add(label);
      }
      at = end;
      continue;
    }
    if (char === "{" || char === "[") {
      const within = top?.names === null ? String(top.index) : label;
      frames.push({ names: char === "{" ? new Set() : null, label: within, index: 0 });
    } else if (char === "}" || char === "]") {
      frames.pop();
    } else if (char === "," && top) {
      top.index += 1;
    }
    at += 1;
  }
  return "";
}

/**
 * Parses UTF-8 JSON strictly. Throws INVALID with the path of the problem.
 * @param nodesMax the number of members and items that the value may have
 */
export function parseJson(bytes: Uint8Array, nodesMax: number = LIMITS.node_count_max): unknown {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw invalid("", "UTF-8 text");
  }
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch {
    throw invalid("", "a JSON text");
  }
  if (gate(value, "", true, nodesMax) !== countMembers(text)) {
    const field = { path: duplicateName(text), expected: "each member name once", got: "a duplicate" };
    throw new FleetError("INVALID", "the input is not plain JSON data", { fields: [field] });
  }
  return value;
}
