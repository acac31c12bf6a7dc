// Text of a checkpoint as it may stand in a prompt. It was written by agents, which may repeat what a web page or a file told them,
// so it is data: every line of it begins with the mark of a quotation, which our own lines never do. No text can end its quotation,
// because it cannot write a line without the mark.

import { redact } from "../integrity/redaction.ts";
import { LIMITS } from "../protocol/limits.ts";

export const QUOTE = ">";

export interface Clean {
  readonly text: string;
  /** Characters of the original that were cut off at its end; 0 when it is whole. */
  readonly cut: number;
  readonly secrets: number;
}

/** What follows the cut is looked at too, so that a secret that lies across it is seen as a whole. */
const BEYOND_CUT = 4_096;

const UNPLAIN = /[^\n\x20-\x7e]/;
/** The sequences that a terminal obeys; what else is unprintable goes later. */
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out.
  /(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]/g;
const LINE_BREAKS = /\r\n?|[\v\f\u0085\u2028\u2029]/g;
/** Formatting that nobody sees: direction marks, joiners, tags, selectors, fillers. Text can be hidden in it or changed by it. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
const UNPRINTABLE = /[^\P{C}\n]/gu;
const SPACES = /[\t\p{Zs}]/gu;
/** Longer gaps push text out of sight; empty lines in numbers too. */
const GAP = / {17,}/g;
const EMPTY_LINES = /\n(?: *\n){2,}/g;
/**
 * Marks by which models and their programs tell who is speaking: special tokens and role tags. One character is changed; other angle
 * brackets, as in code, stay.
 */
const ROLE_MARKS =
  /<(?=\|)|\|(?=>)|<(?=\/?[ ]?(?:antml|s>|system|assistant|user|human|developer|tool|function|invoke|parameter|instruct|prompt|im_start|im_end|policy|admin|context|document|thinking|reminder))|<(?=<\/?SYS)|\[(?=\/?INST\])/gi;

/** At most `chars` characters of `raw`, plain and without secrets. */
export function clean(raw: string, chars: number): Clean {
  const limit = Math.min(chars, LIMITS.prompt_text_chars_max);
  const taken = raw.length > limit + BEYOND_CUT ? raw.slice(0, limit + BEYOND_CUT) : raw;
  const { text, count } = redact(UNPLAIN.test(taken) ? visible(taken) : taken);
  const whole = text.replace(ROLE_MARKS, (mark) => (mark === "<" ? "‹" : mark === "[" ? "(" : "¦"));
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

/** As quoted lines. `lead` stands before the first, and as much space before the others. */
export function quoted({ text, cut }: Clean, lead: string): string[] {
  const whole = cut === 0 ? text : `${text} … (${cut} more characters)`;
  const indent = " ".repeat(lead.length);
  return whole
    .split("\n")
    .flatMap(folded)
    .map((line, at) => `${QUOTE} ${at === 0 ? lead : indent}${line}`.trimEnd());
}

/** A name or a time from a checkpoint, in a line of ours: nothing in it but what names and times are made of. */
export function word(text: string): string {
  return text.slice(0, LIMITS.id_chars_max).replace(/[^A-Za-z0-9_.:+-]/g, "_");
}

function folded(line: string): string[] {
  const width = LIMITS.prompt_line_chars_max;
  const lines: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const space = rest.lastIndexOf(" ", width);
    let at = space > width / 2 ? space : width;
    // Not through the middle of a character.
    if (/[\ud800-\udbff]/.test(rest[at - 1]!)) at -= 1;
    lines.push(rest.slice(0, at));
    rest = rest.slice(at).trimStart();
  }
  return [...lines, rest];
}
