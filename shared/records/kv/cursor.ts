/**
 * Cursors: opaque text that continues a page. It names the query it belongs to and carries a check sum, so that a broken cursor,
 * or one of another query, is refused instead of answering with a wrong page.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import { invalid } from "../../protocol/errors.ts";

export type CursorKind = string;

const CHECK_CHARS = 12;

function check(kind: CursorKind, position: string): string {
  return sha256Hex(`${kind}\n${position}`).slice(0, CHECK_CHARS);
}

export function sealCursor(kind: CursorKind, position: string): string {
  return Buffer.from(`${check(kind, position)}${position}`).toString("base64url");
}

/** Throws INVALID for anything but a cursor of this very query. */
export function openCursor(kind: CursorKind, cursor: string): string {
  const text = Buffer.from(cursor, "base64url").toString();
  const position = text.slice(CHECK_CHARS);
  if (text.slice(0, CHECK_CHARS) !== check(kind, position)) {
    throw invalid("cursor", "the cursor of this query's last page, unchanged", cursor);
  }
  return position;
}
