/** How many of something each name has open, with a limit. */
export class OpenCounts {
  readonly #most: number;
  readonly #open = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Returns the function that closes it, for one call; undefined at the limit. */
  open(name: string): (() => void) | undefined {
    const count = this.#open.get(name) ?? 0;
    if (count >= this.#most) return undefined;
    this.#open.set(name, count + 1);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const left = (this.#open.get(name) ?? 1) - 1;
      if (left === 0) this.#open.delete(name);
      else this.#open.set(name, left);
    };
  }
}
