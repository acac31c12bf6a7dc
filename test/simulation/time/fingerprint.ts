/** The fingerprint of what a simulation does: equal for runs that do the same at the same times. */
import { createHash } from "node:crypto";

/** A call of the hash costs more than the bytes of a frame, so they are hashed together. */
const BUFFER_BYTES = 64 * 1024;
const NUMBER_BYTES = 8;

export class Fingerprint {
  readonly #hash = createHash("sha256");
  readonly #buffer = Buffer.allocUnsafe(BUFFER_BYTES);
  #used = 0;

  /** `source`: short, such as the name of a connection and the direction. */
  add(source: string, bytes: Uint8Array): void {
    this.#reserve(2 * NUMBER_BYTES + source.length);
    this.#used = this.#buffer.writeDoubleLE(performance.now(), this.#used);
    this.#used = this.#buffer.writeUInt32LE(source.length, this.#used);
    this.#used = this.#buffer.writeUInt32LE(bytes.length, this.#used);
    this.#used += this.#buffer.write(source, this.#used, "latin1");
    this.#append(bytes);
  }

  /** Of everything until now. */
  digest(): string {
    this.#flush();
    return this.#hash.copy().digest("hex");
  }

  #append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    if (bytes.length > BUFFER_BYTES) this.#hash.update(bytes);
    else {
      this.#buffer.set(bytes, this.#used);
      this.#used += bytes.length;
    }
  }

  #reserve(size: number): void {
    if (this.#used + size > BUFFER_BYTES) this.#flush();
  }

  #flush(): void {
    this.#hash.update(this.#buffer.subarray(0, this.#used));
    this.#used = 0;
  }
}
