/** What a verification found: a code of the table in EXPORT.md, and its place in the bundle. */

export interface BundleFinding {
  readonly at: string;
  readonly code: string;
}

export class BundleFindings {
  readonly #found = new Map<string, BundleFinding>();

  add(code: string, at: string): void {
    this.#found.set(`${at}\n${code}`, { at, code });
  }

  has(code: string): boolean {
    return this.all.some((one) => one.code === code);
  }

  /** Each once, in the order of their places. */
  get all(): readonly BundleFinding[] {
    const names = [...this.#found.keys()].sort();
    return names.map((name) => this.#found.get(name)!);
  }
}
