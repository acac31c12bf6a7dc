/**
 * A disk with one file, to which records are appended. At a power cut it keeps everything that was synced. Of the rest each sector is kept,
 * lost or torn, as a real disk may do it in any order.
 */

const SECTOR_BYTES = 512;
const FIRST_BYTES = 64 * 1024;

/** Sees each change of the disk. */
export type DiskObserver = (change: "append" | "sync" | "truncate" | "power cut", bytes: Uint8Array) => void;

const NOTHING = Buffer.alloc(0);

export class SimulatedDisk {
  readonly #observe: DiskObserver;
  #file = Buffer.alloc(FIRST_BYTES);
  #written = 0;
  #synced = 0;

  constructor(observe: DiskObserver = () => {}) {
    this.#observe = observe;
  }

  /** The bytes as a program reads them: those that are not synced too. */
  get bytes(): Buffer {
    return this.#file.subarray(0, this.#written);
  }

  append(bytes: Uint8Array): void {
    const end = this.#written + bytes.length;
    if (end > this.#file.length) {
      const grown = Buffer.alloc(Math.max(end, 2 * this.#file.length));
      grown.set(this.bytes);
      this.#file = grown;
    }
    this.#file.set(bytes, this.#written);
    this.#written = end;
    this.#observe("append", bytes);
  }

  sync(): void {
    this.#observe("sync", NOTHING);
    this.#synced = this.#written;
  }

  /** Removes everything from `length` on, durably. */
  truncate(length: number): void {
    this.#file.fill(0, length, this.#written);
    this.#written = length;
    this.#synced = length;
    this.#observe("truncate", this.bytes);
  }

  /** What is left is on the disk for good. */
  powerCut(random: () => number): void {
    for (let at = this.#synced; at < this.#written; ) {
      const end = Math.min(this.#written, (Math.floor(at / SECTOR_BYTES) + 1) * SECTOR_BYTES);
      const dice = random();
      if (dice < 1 / 3) this.#file.fill(0, at, end);
      else if (dice < 2 / 3) this.#file.fill(0, at + Math.floor(random() * (end - at)), end);
      at = end;
    }
    // The length of the file is of the unsynced state too.
    if (random() < 1 / 3)
      this.#written = this.#synced + Math.floor(random() * (this.#written - this.#synced));
    this.#synced = this.#written;
    this.#observe("power cut", this.bytes);
  }
}
