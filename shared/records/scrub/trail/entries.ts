/** Reads audit entries that may be damaged. */
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import type { Bytes } from "../../../store/store.ts";
import { decode } from "../../kv/codec.ts";
import { readable } from "../head.ts";

/** Reads an entry. null: it is unreadable. `facts` is undefined for invalid JSON. */
export function readEntry(value: Bytes | undefined): { text: string; facts: AuditEntry | undefined } | null {
  const text = value === undefined ? null : readable(() => decodeText(value));
  return text === null ? null : { text, facts: factsIn(text) };
}

/** Throws for a value that is not text, which is damage too. */
function decodeText(value: Bytes): string {
  const text = decode<unknown>(value);
  if (typeof text !== "string") throw new TypeError("an audit entry is text");
  return text;
}

function factsIn(text: string): AuditEntry | undefined {
  try {
    const facts: unknown = JSON.parse(text);
    return typeof facts === "object" && facts !== null ? (facts as AuditEntry) : undefined;
  } catch {
    return undefined;
  }
}
