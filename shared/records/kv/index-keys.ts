/** The keys of the search index in the keyspace of a tenant. */
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, element, name, uuid } from "./key-elements.ts";

type Subspace = "ix" | "text" | "posted" | "dropped";

/** The end of the keys of a checkpoint's entries, in all indexes. */
export function indexKeyEnd(timeMs: number, id: string): Buffer {
  return Buffer.concat([element(timeMs), uuid(id)]);
}

export function indexKeys(at: (subspace: Subspace, ...parts: Buffer[]) => Buffer) {
  const indexEntry = (index: string, value: string, end: Buffer): Bytes =>
    at("ix", name(index), name(value), end);
  return {
    index: (index: string, value: string, timeMs: number, id: string): Bytes =>
      indexEntry(index, value, indexKeyEnd(timeMs, id)),
    /** As `index`, for the entries of one checkpoint in several indexes. */
    indexEntry,
    /** The first possible key of an index at `timeMs` or later. */
    indexFrom: (index: string, value: string, timeMs: number): Bytes =>
      at("ix", name(index), name(value), element(timeMs)),
    indexes: (): KeyRange => children(at("ix")),
    word: (word: string, step: number): Bytes => at("text", element(word), element(step)),
    wordRange: (word: string): KeyRange => children(at("text", element(word))),
    words: (): KeyRange => children(at("text")),
    posted: (step: number): Bytes => at("posted", element(step)),
    postedSteps: (): KeyRange => children(at("posted")),
    dropped: (id: string): Bytes => at("dropped", uuid(id)),
    droppedWords: (): KeyRange => children(at("dropped")),
  };
}
