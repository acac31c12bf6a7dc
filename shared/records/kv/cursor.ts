/**
 * Cursors: opaque text with which a caller requests the next page. A cursor carries a checksum over its query
 * and position, so that a damaged cursor, or one of another query, is refused instead of answered with a
 * wrong page.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import { invalid } from "../../protocol/errors.ts";

export type CursorKind = string;

const CHECKSUM_CHARS = 12;

function checksum(kind: CursorKind, position: string): string {
  return sha256Hex(`${kind}\n${position}`).slice(0, CHECKSUM_CHARS);
}

export function sealCursor(kind: CursorKind, position: string): string {
  return Buffer.from(`${checksum(kind, position)}${position}`).toString("base64url");
}

/** Returns the position. Throws INVALID unless the cursor belongs to this query. */
export function openCursor(kind: CursorKind, cursor: string): string {
  const text = Buffer.from(cursor, "base64url").toString();
  const position = text.slice(CHECKSUM_CHARS);
  if (text.slice(0, CHECKSUM_CHARS) !== checksum(kind, position)) {
    throw invalid("cursor", "the cursor of this query's last page, unchanged", cursor);
  }
  return position;
}
