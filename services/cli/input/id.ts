// Turns an id as it is copied into the form in which it is sent. A retry is recognised by its bytes, so a command must
// have one spelling, however its ids were typed. The fleet decides whether the text is an id at all.

export function bareId(text: string): string {
  return text.replace(/^chk-/, "").toLowerCase();
}

/** The parser of an option that takes several ids. */
export function collectIds(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, bareId(text)];
}
