// Ids as people copy them, turned into the form in which they are sent. A retry is known by its bytes, so one command
// must have one spelling, however its ids were typed. The fleet judges whether it is an id at all.

export function bareId(text: string): string {
  return text.replace(/^chk-/, "").toLowerCase();
}

/** For commander's options that take several. */
export function collectIds(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, bareId(text)];
}
