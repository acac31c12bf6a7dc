/**
 * The plain values that a process has encrypted last, so that it need not decrypt them for the readers that follow a commit: the relay, the index, the log
 * and the mirror. Only a value whose address and whose encrypted bytes are the same to the last byte is found, so what the store returns is checked as
 * strictly as by its tag.
 *
 * They are kept in one block outside the heap, in the order of their encryption, and the oldest are overwritten. As objects they would survive the
 * collections of young objects, which costs more than the decryption.
 */
import { NONCE_AT } from "../../integrity/encryption/encrypted-bytes.ts";
import type { Bytes } from "../../store/store.ts";

/** A larger one would displace everything else in the caches of the processor. */
const BLOCK_BYTES = 16 * 1_024 * 1_024;
/** The cipher takes most of the time for a longer value, and a few of them would displace all others. */
const VALUE_BYTES_MAX = 16 * 1_024;
/** A power of two. */
const SLOTS = 32_768;

export class RecentValues {
  /** Allocated with the first value. */
  #block: Buffer | null = null;
  /** The bytes written so far: at the end of the block, writing begins again at its start. */
  #written = 0;
  /** By a part of the nonce, which is random: where the value begins, counted as `#written`. Its parts are `address ‖ encrypted ‖ plain`. */
  readonly #from = new Float64Array(SLOTS).fill(-1);
  readonly #addressBytes = new Uint16Array(SLOTS);
  readonly #encryptedBytes = new Uint16Array(SLOTS);
  readonly #plainBytes = new Uint16Array(SLOTS);

  add(encrypted: Bytes, plain: Bytes, address: Bytes): void {
    if (encrypted.length > VALUE_BYTES_MAX) return;
    const length = address.length + encrypted.length + plain.length;
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES);
    const rest = BLOCK_BYTES - (this.#written % BLOCK_BYTES);
    if (length > rest) this.#written += rest;
    const slot = slotOf(encrypted);
    this.#from[slot] = this.#written;
    this.#addressBytes[slot] = address.length;
    this.#encryptedBytes[slot] = encrypted.length;
    this.#plainBytes[slot] = plain.length;
    const at = this.#written % BLOCK_BYTES;
    this.#block.set(address, at);
    this.#block.set(encrypted, at + address.length);
    this.#block.set(plain, at + address.length + encrypted.length);
    this.#written += length;
  }

  /** A copy of the plain value. */
  find(encrypted: Bytes, address: Bytes): Buffer | undefined {
    const block = this.#block;
    if (block === null || encrypted.length > VALUE_BYTES_MAX) return undefined;
    const slot = slotOf(encrypted);
    const from = this.#from[slot]!;
    // Anything older was overwritten.
    if (from < 0 || this.#written - from > BLOCK_BYTES) return undefined;
    if (this.#addressBytes[slot] !== address.length || this.#encryptedBytes[slot] !== encrypted.length)
      return undefined;
    const at = from % BLOCK_BYTES;
    const body = at + address.length;
    const plain = body + encrypted.length;
    if (block.compare(encrypted, 0, encrypted.length, body, plain) !== 0) return undefined;
    if (block.compare(address, 0, address.length, at, body) !== 0) return undefined;
    return Buffer.from(block.subarray(plain, plain + this.#plainBytes[slot]!));
  }
}

function slotOf(encrypted: Bytes): number {
  return ((encrypted[NONCE_AT]! << 8) | encrypted[NONCE_AT + 1]!) & (SLOTS - 1);
}
