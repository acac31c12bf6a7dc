/** The keys of the search index in the keyspace of a tenant. */
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, element, uuid } from "./key-elements.ts";

type Subspace = "ix" | "text" | "posted" | "dropped";

export function indexKeys(at: (subspace: Subspace, ...parts: Buffer[]) => Buffer) {
  return {
    index: (name: string, value: string, timeMs: number, id: string): Bytes =>
      at("ix", element(name), element(value), element(timeMs), uuid(id)),
    indexRange: (name: string, value: string): KeyRange => children(at("ix", element(name), element(value))),
    /** The first possible key of an index at `timeMs` or later. */
    indexFrom: (name: string, value: string, timeMs: number): Bytes =>
      at("ix", element(name), element(value), element(timeMs)),
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
