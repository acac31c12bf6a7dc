/** What a verification found: a code of the table in EXPORT.md, and its place in the bundle. */

export interface BundleFinding {
  readonly at: string;
  readonly code: string;
}

/** A forged bundle can have millions. */
export const FINDINGS_MAX = 1_000;
/** Of a place, in characters. A bundle may have names of any length. */
const PLACE_MAX = 300;

export class BundleFindings {
  #found = new Map<string, BundleFinding>();
  #hasMore = false;

  add(code: string, place: string): void {
    const at = placeIn(place);
    this.#found.set(`${at}\n${code}`, { at, code });
    if (this.#found.size > 2 * FINDINGS_MAX) this.#cut();
  }

  has(code: string): boolean {
    return this.all.some((one) => one.code === code);
  }

  /** Each once, in the order of their places: the first ones. */
  get all(): readonly BundleFinding[] {
    this.#cut();
    return [...this.#found.values()];
  }

  /** Whether there are more than these. Their number is not known, because it is not known which of them are the same. */
  get hasMore(): boolean {
    this.#cut();
    return this.#hasMore;
  }

  #cut(): void {
    const names = [...this.#found.keys()].sort();
    if (names.length > FINDINGS_MAX) this.#hasMore = true;
    this.#found = new Map(names.slice(0, FINDINGS_MAX).map((name) => [name, this.#found.get(name)!]));
  }
}

function placeIn(place: string): string {
  if (place.length <= PLACE_MAX) return place;
  return Array.from(place.slice(0, 2 * PLACE_MAX))
    .slice(0, PLACE_MAX)
    .join("");
}
