/**
 * The words of a checkpoint for free-text search. They are a pure function of the checkpoint, which the
 * indexer uses to post words and the search uses to check hits, so that the two cannot differ.
 *
 * A word is a run of Unicode letters and digits with their marks, normalised (NFKC) and in lower case. The
 * most important fields are read first, because the number of words of a checkpoint is limited.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";

const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu;
/** The equivalent for ASCII text, several times faster. */
const ASCII_WORD = /[a-z0-9]+/g;
const ASCII = /^[\0-\x7f]*$/;

function split(text: string): string[] {
  const found = ASCII.test(text)
    ? text.toLowerCase().match(ASCII_WORD)
    : text.normalize("NFKC").toLowerCase().match(WORD);
  return (found ?? []).filter(isIndexed);
}

function isIndexed({ length }: string): boolean {
  return length >= LIMITS.index_word_chars_min && length <= LIMITS.index_word_chars_max;
}

/** The distinct words of a search text. */
export function wordsIn(text: string): string[] {
  return [...new Set(split(text.slice(0, LIMITS.index_text_chars_max)))];
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

/** Short texts are joined up to this size and split together, because each call of `split` is expensive. */
const JOINED_CHARS = 8_192;

function* joinTexts(all: Iterable<string | undefined>): Generator<string> {
  let joined = "";
  for (const text of all) {
    if (text === undefined) continue;
    // A line break belongs to no word.
    joined += `${text.slice(0, LIMITS.index_text_chars_max)}\n`;
    if (joined.length < JOINED_CHARS) continue;
    yield joined;
    joined = "";
  }
  yield joined;
}

/** The distinct words of a checkpoint, at most {@link LIMITS.index_words_max}. */
export function wordsOf(checkpoint: Checkpoint): Set<string> {
  const words = new Set<string>();
  for (const text of joinTexts(texts(checkpoint))) {
    for (const word of split(text)) {
      words.add(word);
      if (words.size === LIMITS.index_words_max) return words;
    }
  }
  return words;
}
