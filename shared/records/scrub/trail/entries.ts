/** Reads audit entries that may be damaged. */
import { entryHash } from "../../../integrity/chain.ts";
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import type { Bytes } from "../../../store/store.ts";
import { decode, readable } from "../../kv/codec.ts";

interface ReadEntry {
  readonly text: string;
  /** undefined: the text is not JSON. */
  readonly facts: AuditEntry | undefined;
}

/** Whether an event is of the entry. An event of an earlier version lacks the hash. */
export function isEventOf(
  entry: ReadEntry | null,
  { time, audithash }: { readonly time: string; readonly audithash?: string | undefined },
): boolean {
  if (entry?.facts?.at !== time) return false;
  return audithash === undefined || entryHash(entry.text) === audithash;
}

/** Reads an entry. null: it is unreadable. */
export function readEntry(value: Bytes | undefined): ReadEntry | null {
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
