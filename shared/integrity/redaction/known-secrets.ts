/**
 * Finds known secrets in a text, in all their forms, in one pass whose time is linear in the text: an automaton of Aho and Corasick. It
 * holds the first characters of each form; the rest is compared where these are found.
 */
import { hasHidden, placesOfVisible, withoutHidden } from "../../protocol/hidden-text.ts";
import { replaceParts, type TextPart } from "../../protocol/redaction.ts";
import { hasFoldedLines, placesOfUnfolded, unfolded } from "./folded-lines.ts";
import { formsOf, SECRET_CHARS_MIN } from "./secret-forms.ts";

/** Long enough that no harmless text has them by accident, and that few places are compared. */
const INDEXED_CHARS = 32;
/**
 * The rest of a form is compared at each place where its first characters stand. A longer form is found in pieces of this length, so
 * that a long secret that repeats itself takes bounded time.
 */
const PIECE_CHARS = 1024;
/** The memory of the automaton grows with its forms. */
export const KNOWN_SECRETS_MAX = 500;

class State {
  /** Most states have one next state: a map for each would take ten times the memory. */
  char = -1;
  only: State | undefined;
  more: Map<number, State> | undefined;
  /** The longest end of this state that begins a form. */
  shorter: State | undefined;
  /** The nearest of these where forms were found. */
  found: State | undefined;
  readonly depth: number;
  readonly forms: string[] = [];

  constructor(depth: number) {
    this.depth = depth;
  }

  next(char: number): State | undefined {
    return char === this.char ? this.only : this.more?.get(char);
  }

  grow(char: number): State {
    const known = this.next(char);
    if (known !== undefined) return known;
    const state = new State(this.depth + 1);
    if (this.only === undefined) {
      this.char = char;
      this.only = state;
    } else {
      this.more ??= new Map();
      this.more.set(char, state);
    }
    return state;
  }

  *children(): Generator<readonly [number, State]> {
    if (this.only !== undefined) yield [this.char, this.only];
    if (this.more !== undefined) yield* this.more;
  }
}

export class KnownSecrets {
  readonly #root = new State(0);
  readonly count: number;

  /** Values of fewer than 8 characters are not searched for. */
  constructor(values: Iterable<string>) {
    const secrets = new Set([...values].filter((value) => value.length >= SECRET_CHARS_MIN));
    this.count = secrets.size;
    for (const secret of secrets)
      for (const form of formsOf(secret)) for (const piece of piecesOf(form)) this.#add(piece);
    this.#link();
  }

  #add(form: string): void {
    let state = this.#root;
    for (let i = 0; i < Math.min(form.length, INDEXED_CHARS); i += 1) state = state.grow(form.charCodeAt(i));
    // The pieces of a secret that repeats itself may be the same.
    if (!state.forms.includes(form)) state.forms.push(form);
  }

  #link(): void {
    const states: State[] = [this.#root];
    for (let i = 0; i < states.length; i += 1) {
      const state = states[i]!;
      for (const [char, child] of state.children()) {
        states.push(child);
        const shorter = state.shorter === undefined ? this.#root : this.#step(state.shorter, char);
        child.shorter = shorter;
        child.found = shorter.forms.length > 0 ? shorter : shorter.found;
      }
    }
  }

  #step(from: State, char: number): State {
    for (let state: State | undefined = from; state !== undefined; state = state.shorter) {
      const next = state.next(char);
      if (next !== undefined) return next;
    }
    return this.#root;
  }

  /** The text with `replacement` in place of each known secret. Hidden characters inside a secret do not hide it. */
  replaced(text: string, replacement: string): { readonly text: string; readonly count: number } {
    if (this.count === 0) return { text, count: 0 };
    // A secret may have hidden characters of its own.
    const written = this.#partsOf(text);
    let clean = replaceParts(text, written, replacement, null);
    let count = written.length;
    if (hasHidden(clean)) {
      const visible = this.#partsOf(withoutHidden(clean));
      clean = replaceParts(clean, visible, replacement, placesOfVisible(clean));
      count += visible.length;
    }
    if (hasFoldedLines(clean)) {
      const folded = this.#partsOf(unfolded(clean));
      clean = replaceParts(clean, folded, replacement, placesOfUnfolded(clean));
      count += folded.length;
    }
    return { text: clean, count };
  }

  #partsOf(text: string): TextPart[] {
    const parts: TextPart[] = [];
    let state = this.#root;
    for (let i = 0; i < text.length; i += 1) {
      state = this.#step(state, text.charCodeAt(i));
      for (
        let found: State | undefined = state.forms.length > 0 ? state : state.found;
        found !== undefined;
        found = found.found
      ) {
        const begin = i + 1 - found.depth;
        const end = endOf(text, begin, found.forms);
        if (end > begin) add(parts, { begin, end });
      }
    }
    return parts;
  }
}

function piecesOf(form: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at + PIECE_CHARS < form.length; at += PIECE_CHARS)
    pieces.push(form.slice(at, at + PIECE_CHARS));
  // As long as the others, because a short one could stand in a harmless text.
  pieces.push(form.slice(-PIECE_CHARS));
  return pieces;
}

/** The end of the longest form that begins there; a form that the end of the text cuts off counts. */
function endOf(text: string, begin: number, forms: readonly string[]): number {
  let end = begin;
  for (const form of forms) {
    // Twenty times as fast as `startsWith`.
    const given = text.slice(begin, begin + form.length);
    const isWhole = given === form;
    const isCut = given.length < form.length && form.startsWith(given);
    if (isWhole || isCut) end = Math.max(end, Math.min(text.length, begin + form.length));
  }
  return end;
}

/** Parts that overlap or touch become one: touching ones may be the pieces of one secret. */
function add(parts: TextPart[], part: TextPart): void {
  let { begin, end } = part;
  for (let last = parts.at(-1); last !== undefined && last.end >= begin; last = parts.at(-1)) {
    begin = Math.min(begin, last.begin);
    end = Math.max(end, last.end);
    parts.pop();
  }
  parts.push({ begin, end });
}
