// Quoted text of a checkpoint. Agents wrote it, and may repeat instructions from a web page or a file, so it is data: every line of it
// begins with the quotation mark, and no unquoted line does. No text can end its quotation, because none of its lines lacks the mark.

import { ESCAPES, INVISIBLE } from "../protocol/hidden-text.ts";
import { LIMITS } from "../protocol/limits.ts";
import { redact } from "../protocol/redaction.ts";

export const QUOTE = ">";

export interface CleanText {
  readonly text: string;
  /** The number of characters cut off at the end of the original; 0 if it is whole. */
  readonly cut: number;
  readonly secrets: number;
}

/** The text after the cut is scanned too, so that a secret across the cut is found. */
const BEYOND_CUT = 4_096;

const UNPLAIN = /[^\n\x20-\x7e]/;
const LINE_BREAKS = /\r\n?|[\v\f\u0085\u2028\u2029]/g;
const UNPRINTABLE = /[^\P{C}\n]/gu;
const SPACES = /[\t\p{Zs}]/gu;
/** Longer gaps, like many empty lines, push text out of sight. */
const GAP = / {17,}/g;
const EMPTY_LINES = /\n(?: *\n){2,}/g;
/**
 * The marks by which models and their programs recognise speakers: special tokens and role tags. One character of each is replaced; other
 * angle brackets, as in code, stay.
 */
const ROLE_MARKS =
  /<(?=\|)|\|(?=>)|<(?=\/?[ ]?(?:antml|s>|system|assistant|user|human|developer|tool|function|invoke|parameter|instruct|prompt|im_start|im_end|policy|admin|context|document|thinking|reminder))|<(?=<\/?SYS)|\[(?=\/?INST\])/gi;

/** Up to `chars` characters of `raw`, plain and without secrets. */
export function clean(raw: string, chars: number): CleanText {
  const limit = Math.min(chars, LIMITS.prompt_text_chars_max);
  const taken = raw.length > limit + BEYOND_CUT ? raw.slice(0, limit + BEYOND_CUT) : raw;
  const { text, count } = redact(taken);
  const plain = UNPLAIN.test(text) ? visible(text) : text;
  const whole = plain.replace(ROLE_MARKS, (mark) => (mark === "<" ? "‹" : mark === "[" ? "(" : "¦"));
  const tidy = whole.replace(GAP, " ".repeat(16)).replace(EMPTY_LINES, "\n\n").trim();
  const untaken = raw.length - taken.length;
  if (tidy.length <= limit && untaken === 0) return { text: tidy, cut: 0, secrets: count };
  const kept = tidy
    .slice(0, limit)
    .toWellFormed()
    .replace(/\ufffd$/, "")
    .trimEnd();
  return { text: kept, cut: Math.max(1, tidy.length - kept.length + untaken), secrets: count };
}

function visible(text: string): string {
  return text
    .toWellFormed()
    .replace(LINE_BREAKS, "\n")
    .replace(ESCAPES, "")
    .replace(INVISIBLE, "")
    .replace(SPACES, " ")
    .replace(UNPRINTABLE, "\ufffd");
}

/** The text in quoted lines. `lead` is put before the first line, and as many spaces before the others. */
export function quoted({ text, cut }: CleanText, lead: string): string[] {
  const whole = cut === 0 ? text : `${text} … (${cut} more characters)`;
  const indent = " ".repeat(lead.length);
  return whole
    .split("\n")
    .flatMap(folded)
    .map((line, at) => `${QUOTE} ${at === 0 ? lead : indent}${line}`.trimEnd());
}

/** A name or a time from a checkpoint for an unquoted line, reduced to the characters of names and times. */
export function safe(text: string): string {
  return text.slice(0, LIMITS.id_chars_max).replace(/[^A-Za-z0-9_.:+-]/g, "_");
}

function folded(line: string): string[] {
  const width = LIMITS.prompt_line_chars_max;
  const lines: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const space = rest.lastIndexOf(" ", width);
    let at = space > width / 2 ? space : width;
    // A surrogate pair is not split.
    if (/[\ud800-\udbff]/.test(rest[at - 1]!)) at -= 1;
    lines.push(rest.slice(0, at));
    rest = rest.slice(at).trimStart();
  }
  return [...lines, rest];
}
