/**
 * The words of a checkpoint that free-text search knows. A pure function of the checkpoint, used by the indexer to post words and by
 * search to judge a hit, so that the two cannot differ.
 *
 * A word is a run of Unicode letters and digits (with the marks that belong to them), normalised (NFKC) and in lower case. Fields
 * are read in the order of their weight, since only so many words of a checkpoint are kept.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";

const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu;
/** Finds the same in plain ASCII, several times faster. */
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

/** The distinct words of a search text. Empty when it holds none. */
export function wordsIn(text: string): string[] {
  return [...new Set(split(text.slice(0, LIMITS.index_text_chars_max)))];
}

/** Texts of a checkpoint, the most telling first. Undefined where the checkpoint has none. */
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

/** Short texts are split together, since splitting costs more for each text than for each word; a large one is not split for nothing. */
const TOGETHER_CHARS = 8_192;

function* together(all: Iterable<string | undefined>): Generator<string> {
  let joined = "";
  for (const text of all) {
    if (text === undefined) continue;
    // A line's end belongs to no word.
    joined += `${text.slice(0, LIMITS.index_text_chars_max)}\n`;
    if (joined.length < TOGETHER_CHARS) continue;
    yield joined;
    joined = "";
  }
  yield joined;
}

/** At most {@link LIMITS.index_words_max} distinct words. */
export function wordsOf(checkpoint: Checkpoint): Set<string> {
  const words = new Set<string>();
  for (const text of together(texts(checkpoint))) {
    for (const word of split(text)) {
      words.add(word);
      if (words.size === LIMITS.index_words_max) return words;
    }
  }
  return words;
}
