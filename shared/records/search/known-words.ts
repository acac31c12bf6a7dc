/**
 * The words that a process has met lately, so that a text which repeats them needs no new strings. A word is found by its bytes as they stand in the text,
 * in either case.
 *
 * They are kept in arrays of numbers: as keys of a map, each occurrence in a text would first have to become a string. Texts come from agents, so the
 * search for a word ends after a few places in any case.
 */
import { LIMITS } from "../../protocol/limits.ts";

/** About a megabyte. */
const WORDS_MAX = 16_384;
const POOL_BYTES = 16 * WORDS_MAX;
/** A power of two. */
const PLACES = 2 * WORDS_MAX;
const PROBES_MAX = 16;
/** Words of the next texts must fit. */
const SPARE_WORDS = LIMITS.index_words_max;
const SPARE_BYTES = SPARE_WORDS * (LIMITS.index_word_chars_max + 1);

/** No ASCII. */
export const OTHER = 0xff;
/** The letter in lower case or the digit that an ASCII byte stands for; 0: it belongs to no word. {@link OTHER} above ASCII. */
export const WORD_BYTES: Readonly<Uint8Array> = wordBytes();
/** Behind each word in the pool. */
const END = 0;

const ASCII_END = 0x80;
const ASCII = /^[\0-\x7f]*$/;
const HASH_FACTOR = 0x0100_0193;

/** The hash of a word, continued with a byte of {@link WORD_BYTES}. */
export const hashOfWord = (hash: number, byte: number): number => Math.imul(hash ^ byte, HASH_FACTOR);

export class KnownWords {
  /** Of each place the hash and the number of its word. 0: the place is free. */
  readonly #places = new Uint32Array(2 * PLACES);
  /** Of each word the round in which it was added last, of which there are more than 32 bits hold in a year, and where it begins in the pool. */
  readonly #words = new Float64Array(2 * (WORDS_MAX + 1));
  readonly #pool = Buffer.alloc(POOL_BYTES);
  #used = 0;
  readonly #texts: string[] = [""];
  #round = 0;
  /** The words of this round that have no place. */
  #others: Set<string> | null = null;

  /** Begins a round, which returns each of its words once. */
  begin(): void {
    this.#round += 1;
    this.#others = null;
    if (this.#texts.length + SPARE_WORDS <= WORDS_MAX && this.#used + SPARE_BYTES <= POOL_BYTES) return;
    this.#places.fill(0);
    this.#texts.length = 1;
    this.#used = 0;
  }

  /** The word of these ASCII bytes; null: this round has returned it. */
  addBytes(bytes: Uint8Array, from: number, to: number, hash: number): string | null {
    const unsigned = hash >>> 0;
    let place = hash ^ (hash >>> 15);
    for (let probe = 0; probe < PROBES_MAX; probe += 1, place += 1) {
      const at = (place & (PLACES - 1)) << 1;
      const number = this.#places[at + 1]!;
      if (number === 0) return this.#learn(at, unsigned, bytes.subarray(from, to));
      if (this.#places[at] !== unsigned || !this.#isWord(number, bytes, from, to)) continue;
      if (this.#words[2 * number] === this.#round) return null;
      this.#words[2 * number] = this.#round;
      return this.#texts[number]!;
    }
    return this.#addOther(lowerCase(bytes.subarray(from, to)));
  }

  /** As {@link addBytes}, for a word in its final form. */
  add(word: string): string | null {
    if (word.charCodeAt(0) >= ASCII_END || !ASCII.test(word)) return this.#addOther(word);
    const bytes = Buffer.from(word);
    return this.addBytes(bytes, 0, bytes.length, bytes.reduce(hashOfWord, 0));
  }

  #isWord(number: number, bytes: Uint8Array, from: number, to: number): boolean {
    let at = this.#words[2 * number + 1]!;
    for (let i = from; i < to; i += 1, at += 1) if (this.#pool[at] !== WORD_BYTES[bytes[i]!]) return false;
    return this.#pool[at] === END;
  }

  #learn(at: number, hash: number, bytes: Uint8Array): string | null {
    const number = this.#texts.length;
    const text = lowerCase(bytes);
    if (number > WORDS_MAX || this.#used + bytes.length >= POOL_BYTES) return this.#addOther(text);
    this.#texts.push(text);
    this.#words[2 * number] = this.#round;
    this.#words[2 * number + 1] = this.#used;
    this.#used += this.#pool.write(text, this.#used, "latin1");
    this.#pool[this.#used] = END;
    this.#used += 1;
    this.#places[at] = hash;
    this.#places[at + 1] = number;
    return text;
  }

  #addOther(word: string): string | null {
    this.#others ??= new Set();
    if (this.#others.has(word)) return null;
    this.#others.add(word);
    return word;
  }
}

function lowerCase(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1").toLowerCase();
}

function wordBytes(): Uint8Array {
  const bytes = new Uint8Array(256).fill(OTHER, 0x80);
  for (let byte = 0; byte < 0x80; byte += 1) {
    const lower = String.fromCharCode(byte).toLowerCase();
    if (/[a-z0-9]/.test(lower)) bytes[byte] = lower.charCodeAt(0);
  }
  return bytes;
}
