/** The parts of a text that no reader sees. They can hide words from a search, or change their meaning. */

/** The control sequences of terminals. */
export const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are removed.
  /(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]/g;

/** Invisible formatting: direction marks, joiners, tags, selectors, fillers. */
export const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;

/** Both, and all control characters except white space. */
const HIDDEN = new RegExp(`${ESCAPES.source}|${INVISIBLE.source}|(?![\\t-\\r\\x85])\\p{Cc}`, "gu");

/** Any other text has no hidden parts. European text is excluded because the properties take longer. */
const UNPLAIN = /[^\t-\r\x20-\x7e\x85\xa0-\xac\xae-\u02ff\u0370-\u05ff\u2010-\u2027\u2030-\u205f]/;

export function withoutHidden(text: string): string {
  return text.replace(HIDDEN, "");
}

export function hasHidden(text: string): boolean {
  return UNPLAIN.test(text) && text.search(HIDDEN) >= 0;
}

/** A text of the same length. */
export function hiddenAsLineBreaks(text: string): string {
  return text.replace(HIDDEN, (hidden) => "\n".repeat(hidden.length));
}

/** The place in `text` of each character of {@link withoutHidden}. */
export function placesOfVisible(text: string): Uint32Array {
  return placesOutside(text, HIDDEN);
}

/** The place in `text` of each character that no match of `removed`, a global pattern, has. */
export function placesOutside(text: string, removed: RegExp): Uint32Array {
  const places = new Uint32Array(text.length);
  let count = 0;
  let at = 0;
  const add = (end: number): void => {
    while (at < end) {
      places[count] = at;
      count += 1;
      at += 1;
    }
  };
  for (const { index, 0: part } of text.matchAll(removed)) {
    add(index);
    at = index + part.length;
  }
  add(text.length);
  return places.subarray(0, count);
}
