/**
 * Long texts in Base64 or hex are folded into lines of 64 or 76 characters, as by the program `base64` and in PEM. A secret that is encoded with
 * others can stand across such a line end.
 */
import { placesOutside } from "../../protocol/hidden-text.ts";

/** Shorter lines are words and lists. */
const LINE_CHARS_MIN = 40;
const ENCODED = "[A-Za-z0-9+/_-]";
const FOLD = new RegExp(
  `(?<=${ENCODED}{${LINE_CHARS_MIN}})(?:\\r?\\n|\\\\r\\\\n|\\\\n)[ \\t]{0,8}(?=${ENCODED})`,
  "g",
);

export function hasFoldedLines(text: string): boolean {
  return text.search(FOLD) >= 0;
}

export function unfolded(text: string): string {
  return text.replace(FOLD, "");
}

/** The place in `text` of each character of {@link unfolded}. */
export function placesOfUnfolded(text: string): Uint32Array {
  return placesOutside(text, FOLD);
}
