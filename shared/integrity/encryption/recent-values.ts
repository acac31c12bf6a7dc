/**
 * Values that were encrypted or decrypted a moment ago. Each row of a commit is read again within seconds, by the next command on its task, the relay,
 * the audit log, the mirror and retention, and each line of a mirrored trail by the next append. Comparing its bytes takes a fifth of the time that
 * decrypting them takes.
 */
import { encryptedWith, nonceText } from "./encrypted-bytes.ts";

/** Of a longer value, decrypting costs little beside what its reader does with it. */
const VALUE_BYTES_MAX = 2_048;
/** Of each generation: the values of about two seconds of sustained writes. */
const GENERATION_BYTES_MAX = 12_000_000;
/** Of the objects that hold one value, roughly. */
const OVERHEAD_BYTES = 300;

const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

interface Recent {
  readonly address: Uint8Array;
  readonly sealed: Uint8Array;
  readonly plain: Uint8Array;
}

export class RecentValues {
  /** By nonce, which is different for each encryption. */
  #young = new Map<string, Recent>();
  #old = new Map<string, Recent>();
  #youngBytes = 0;

  /** The caller changes none of the bytes afterwards. */
  remember(sealed: Uint8Array, plain: Uint8Array, address: Uint8Array): void {
    if (sealed.length > VALUE_BYTES_MAX) return;
    const bytes = sealed.length + plain.length + address.length + OVERHEAD_BYTES;
    if (this.#youngBytes + bytes > GENERATION_BYTES_MAX) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#youngBytes = 0;
    }
    this.#young.set(nonceText(sealed), { address, sealed, plain });
    this.#youngBytes += bytes;
  }

  /** A copy. undefined: it must be decrypted. All bytes are compared, so a value that was changed or moved is never found. */
  find(sealed: Uint8Array, address: Uint8Array): Buffer | undefined {
    if (sealed.length > VALUE_BYTES_MAX || encryptedWith(sealed) === null) return undefined;
    const nonce = nonceText(sealed);
    const recent = this.#young.get(nonce) ?? this.#old.get(nonce);
    if (recent === undefined || !isSame(recent.sealed, sealed)) return undefined;
    return isSame(recent.address, address) ? Buffer.from(recent.plain) : undefined;
  }
}
