/**
 * The words of a checkpoint for free-text search. They are a pure function of the checkpoint, which the
 * indexer uses to post words and the search uses to check hits, so that the two cannot differ.
 *
 * A word is a run of Unicode letters and digits with their marks, normalised (NFKC) and in lower case. The
 * most important fields are read first, because the number of words of a checkpoint is limited.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { hashOfWord, KnownWords, OTHER, WORD_BYTES } from "./known-words.ts";

const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu;
/** The words of most texts are known, and found without making strings of them. */
const known = new KnownWords();
/** A text as UTF-8. It grows with the largest one. */
let bytes = Buffer.alloc(16_384);
/** UTF-8 has at most so many bytes for each UTF-16 unit. */
const UNIT_BYTES_MAX = 3;
/** In a text with more characters above ASCII, splitting it as a whole takes less time than splitting its parts. */
const OTHERS_SHARE = 1 / 8;

function isIndexed({ length }: string): boolean {
  return length >= LIMITS.index_word_chars_min && length <= LIMITS.index_word_chars_max;
}

/** The distinct words of a search text. */
export function wordsIn(text: string): string[] {
  return distinct([text], Number.POSITIVE_INFINITY);
}

/** The texts of a checkpoint, the most important first. Undefined for a missing field. */
function* texts(checkpoint: Checkpoint): Generator<string | undefined> {
  const { execution_state: state, context_summary: context, metadata, recovery } = checkpoint;
  const items = [...state.pending_items, ...state.blocked_items, ...state.completed_items];
  yield state.goal;
  yield state.current_focus;
  yield state.current_step?.description;
  yield state.resume_pointer?.next_action;
  for (const item of items) yield item.title;
  for (const { decision } of context.key_decisions) yield decision;
  for (const [name, value] of Object.entries(metadata.labels ?? {})) yield `${name} ${value}`;
  yield metadata.trigger.details;
  for (const { blocker } of state.blocked_items as { blocker?: string }[]) yield blocker;
  for (const { notes } of items as { notes?: string }[]) yield notes;
  for (const { rationale } of context.key_decisions as { rationale?: string }[]) yield rationale;
  yield* context.assumptions;
  yield* context.constraints;
  yield state.resume_pointer?.current_context;
  yield state.current_step?.partial_work;
  yield recovery.continuation_prompt;
}

/** The distinct words of a checkpoint, at most {@link LIMITS.index_words_max}. */
export function wordsOf(checkpoint: Checkpoint): string[] {
  return distinct(texts(checkpoint), LIMITS.index_words_max);
}

/** The first `max` distinct words of texts. */
function distinct(all: Iterable<string | undefined>, max: number): string[] {
  known.begin();
  const words: string[] = [];
  for (const text of all) {
    if (text !== undefined) addWords(words, text.slice(0, LIMITS.index_text_chars_max), max);
    if (words.length >= max) return words.slice(0, max);
  }
  return words;
}

/** Adds the words of a text that are not among `words`, at least until there are `max`. */
function addWords(words: string[], text: string, max: number): void {
  if (bytes.length <= text.length * UNIT_BYTES_MAX) bytes = Buffer.alloc(2 * text.length * UNIT_BYTES_MAX);
  const end = bytes.write(text);
  if (end - text.length > text.length * OTHERS_SHARE) {
    addOthers(words, text);
    return;
  }
  bytes[end] = LINE_BREAK;
  for (let at = 0; at < end && words.length < max; ) {
    let byte = WORD_BYTES[bytes[at]!]!;
    if (byte === 0) {
      at += 1;
      continue;
    }
    const from = at;
    let hash = 0;
    while (byte !== 0 && byte !== OTHER) {
      hash = hashOfWord(hash, byte);
      at += 1;
      byte = WORD_BYTES[bytes[at]!]!;
    }
    if (byte === OTHER) {
      const part = partAround(at, end);
      addOthers(words, bytes.toString("utf8", part.from, part.to));
      at = part.to;
    } else if (at - from >= LIMITS.index_word_chars_min && at - from <= LIMITS.index_word_chars_max) {
      const word = known.addBytes(bytes, from, at, hash);
      if (word !== null) words.push(word);
    }
  }
}

const LINE_BREAK = 0x0a;
const SPACE = 0x20;
const ASCII_END = 0x80;

/**
 * The part of the text around a character above ASCII whose words do not depend on the rest: white space before an ASCII character ends it. The marks
 * behind a letter belong to it, and a sigma in lower case depends on the letters beside it.
 */
function partAround(at: number, end: number): { from: number; to: number } {
  let from = at;
  while (from > 0 && !isEndOfPart(from - 1)) from -= 1;
  let to = at;
  while (to < end && !isEndOfPart(to)) to += 1;
  return { from, to };
}

function isEndOfPart(at: number): boolean {
  const byte = bytes[at];
  return (byte === SPACE || byte === LINE_BREAK) && bytes[at + 1]! < ASCII_END;
}

function addOthers(words: string[], text: string): void {
  for (const found of text.normalize("NFKC").toLowerCase().match(WORD) ?? []) {
    const word = isIndexed(found) ? known.add(found) : null;
    if (word !== null) words.push(word);
  }
}
