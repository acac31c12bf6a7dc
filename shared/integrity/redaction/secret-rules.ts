/**
 * The formats of secrets that a maintained library knows. Its rules run here directly: its own driver, `@secretlint/core`, keeps
 * measurements of each run for ever, 7 KB in 32 entries, which a long-lived agent cannot afford. The rule by which a comment in
 * the text switches the others off is left out.
 */

import type { TextPart } from "../../protocol/redaction.ts";
import { SCANNER_RULES } from "../../protocol/redaction-report.ts";

export interface FoundSecret extends TextPart {
  readonly rule: string;
}

interface Message {
  readonly messageId: string;
}
interface RuleContext {
  createTranslator(messages: unknown): (messageId: string) => Message;
  report(found: { readonly range: readonly number[] }): void;
}
interface Rule {
  readonly meta: { readonly id: string };
  create(
    context: RuleContext,
    options: object,
  ): { file?(source: { readonly content: string; readonly filePath: string }): void | Promise<void> };
}
type Rules = readonly { readonly name: string; readonly rule: Rule }[];

const PREFIX = "@secretlint/secretlint-rule-";

let loaded: Promise<Rules> | undefined;

/** Loaded at the first text, because the rules take longer to load than most programs to start. */
function loadRules(): Promise<Rules> {
  loaded ??= import("@secretlint/secretlint-rule-preset-recommend").then(({ rules }) => {
    const known = rules as unknown as readonly Rule[];
    return SCANNER_RULES.map((name) => {
      const rule = known.find(({ meta }) => meta.id === `${PREFIX}${name}`);
      if (rule === undefined) throw new Error(`secretlint has no rule ${name}`);
      return { name, rule };
    });
  });
  // A later text tries again.
  loaded.catch(() => {
    loaded = undefined;
  });
  return loaded;
}

/** No rule continues over it, and no text of JSON has it between two lines. */
const BETWEEN = "\n\u0000\n";

/** The secrets in each text, from the first to the last, without overlaps. All texts are scanned at once: each run of a rule has a fixed cost. */
export async function secretsInTexts(texts: readonly string[]): Promise<readonly (readonly FoundSecret[])[]> {
  const rules = await loadRules();
  const content = texts.join(BETWEEN);
  const found: FoundSecret[] = [];
  for (const { name, rule } of rules) {
    const context: RuleContext = {
      createTranslator: () => (messageId) => ({ messageId }),
      report: ({ range: [begin = 0, end = 0] }) =>
        void found.push({ begin, end, rule: `secretlint ${name}` }),
    };
    // Without a path, no rule reads a file.
    await rule.create(context, {}).file?.({ content, filePath: "" });
  }
  return divided(content, texts, found);
}

function divided(content: string, texts: readonly string[], all: readonly FoundSecret[]): FoundSecret[][] {
  const ordered = all
    .filter(({ begin, end }) => isSecret(content.slice(begin, end)))
    .sort((a, b) => a.begin - b.begin || b.end - a.end);
  let at = 0;
  let next = 0;
  return texts.map((text) => {
    const end = at + text.length;
    const own: FoundSecret[] = [];
    for (; next < ordered.length && ordered[next]!.begin < end; next += 1) {
      const { rule, ...part } = ordered[next]!;
      const isFree = part.begin - at >= (own.at(-1)?.end ?? 0);
      if (part.end <= end && isFree) own.push({ rule, begin: part.begin - at, end: part.end - at });
    }
    at = end + BETWEEN.length;
    return own;
  });
}

const DIGEST = /^(?:[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/** A hash, a commit or a UUID is none, nor is what another rule has replaced. */
const isSecret = (text: string): boolean => !DIGEST.test(text) && !text.includes("[redacted");

const RULE_CHARS_MIN = 12;
const PLAIN_WORDS = /^[a-z]{1,40}(?:_[a-z]{1,40}){0,4}$/;

/** Whether the rules could find a secret in the text: not in short ones, names of members and ids. */
export const mayHaveSecret = (text: string): boolean =>
  text.length >= RULE_CHARS_MIN && !PLAIN_WORDS.test(text) && !DIGEST.test(text);
