/** The messages of one stream, by position and by subject. */
import { isMatch, subjectTokens } from "../subjects.ts";
import type { Publication } from "../wire.ts";

export interface StoredMessage extends Omit<Publication, "reply"> {
  readonly seq: number;
  readonly tokens: readonly string[];
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly size: number;
}

/** The bytes that the server's file store needs beside subject, headers and body. */
const RECORD_BYTES = 30;
const HEADER_LENGTH_BYTES = 4;

export const storedSize = ({ subject, headers, body }: Omit<Publication, "reply">): number =>
  RECORD_BYTES +
  subject.length +
  body.length +
  (headers === undefined ? 0 : HEADER_LENGTH_BYTES + headers.length);

export class StoredMessages {
  readonly #all = new Map<number, StoredMessage>();
  readonly #bySubject = new Map<string, number[]>();
  bytes = 0;
  /** The position after all that were ever stored. */
  nextSeq = 1;
  #first = 1;

  get count(): number {
    return this.#all.size;
  }

  get lastSeq(): number {
    return this.nextSeq - 1;
  }

  /** That of the oldest message; one after the last if there is none. */
  get firstSeq(): number {
    while (this.#first < this.nextSeq && !this.#all.has(this.#first)) this.#first += 1;
    return this.#first;
  }

  get oldest(): StoredMessage | undefined {
    return this.#all.get(this.firstSeq);
  }

  get(seq: number): StoredMessage | undefined {
    return this.#all.get(seq);
  }

  add(message: Omit<Publication, "reply">, at: number): StoredMessage {
    const tokens = subjectTokens(message.subject);
    const { subject, headers, body } = message;
    const one = { subject, headers, body, tokens, seq: this.nextSeq, at, size: storedSize(message) };
    this.nextSeq += 1;
    this.#all.set(one.seq, one);
    const seqs = this.#bySubject.get(subject) ?? [];
    this.#bySubject.set(subject, seqs);
    seqs.push(one.seq);
    this.bytes += one.size;
    return one;
  }

  remove(seq: number): StoredMessage | undefined {
    const one = this.#all.get(seq);
    if (one === undefined) return undefined;
    this.#all.delete(seq);
    const seqs = this.#bySubject.get(one.subject)!;
    seqs.splice(seqs.indexOf(seq), 1);
    if (seqs.length === 0) this.#bySubject.delete(one.subject);
    this.bytes -= one.size;
    return one;
  }

  /** The positions of a subject, oldest first. */
  positions(subject: string): readonly number[] {
    return this.#bySubject.get(subject) ?? [];
  }

  /** The number of messages of each matching subject. */
  counts(filter: string): Record<string, number> {
    const pattern = subjectTokens(filter);
    const matching = [...this.#bySubject].filter(([subject]) => isMatch(pattern, subjectTokens(subject)));
    return Object.fromEntries(matching.map(([subject, seqs]) => [subject, seqs.length]));
  }

  get subjectCount(): number {
    return this.#bySubject.size;
  }

  /** The first match from a position on. Empty filters match everything. */
  next(fromSeq: number, filters: readonly (readonly string[])[]): StoredMessage | undefined {
    for (let seq = Math.max(fromSeq, this.firstSeq); seq < this.nextSeq; seq += 1) {
      const one = this.#all.get(seq);
      if (one !== undefined && isFiltered(filters, one.tokens)) return one;
    }
    return undefined;
  }

  /** All matches from a position on. */
  *from(fromSeq: number, filters: readonly (readonly string[])[]): Generator<StoredMessage> {
    for (let one = this.next(fromSeq, filters); one !== undefined; one = this.next(one.seq + 1, filters))
      yield one;
  }
}

export const isFiltered = (filters: readonly (readonly string[])[], tokens: readonly string[]): boolean =>
  filters.length === 0 || filters.some((filter) => isMatch(filter, tokens));
