/** The bounded log of an agent's output: two alternating files, which together hold the newest bytes. */
import { closeSync, openSync, renameSync, statSync, writeSync } from "node:fs";

/** The file of the older half. */
export const olderOutput = (path: string): string => `${path}.1`;

export class OutputLog {
  readonly #path: string;
  readonly #half: number;
  #file: number | undefined;
  #size = 0;
  /** Bytes that could not be written. */
  lost = 0;

  constructor(path: string, bytesMax: number) {
    this.#path = path;
    this.#half = Math.max(1, Math.floor(bytesMax / 2));
  }

  /** A full disk must not end the agent, so bytes that cannot be written are only counted. */
  write(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      try {
        at += this.#append(chunk.subarray(at));
      } catch {
        this.lost += chunk.length - at;
        return;
      }
    }
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  /** Writes as much as fits into the current file. */
  #append(part: Uint8Array): number {
    if (this.#size >= this.#half) {
      this.close();
      renameSync(this.#path, olderOutput(this.#path));
    }
    if (this.#file === undefined) {
      this.#file = openSync(this.#path, "a", 0o600);
      this.#size = statSync(this.#path).size;
    }
    const written = writeSync(this.#file, part.subarray(0, Math.max(1, this.#half - this.#size)));
    this.#size += written;
    return written;
  }
}
