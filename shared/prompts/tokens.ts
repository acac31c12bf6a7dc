// How long a text is to a model.

import { createRequire } from "node:module";
import type { TokenizerName } from "../protocol/prompt.ts";

export interface Tokenizer {
  readonly name: TokenizerName;
  /** A fraction, where tokens are estimated: the parts of a text add up to the whole, if each begins a line. */
  count(text: string): number;
}

const fourCharacters: Tokenizer = { name: "four_characters", count: (text) => text.length / 4 };

const loaded = new Map<TokenizerName, Tokenizer>([["four_characters", fourCharacters]]);

/**
 * Loads the real tokenizer at its first use, because its tables take 0.3 s: a service asks for it at its start, and a command that
 * prints no prompt never. Where it cannot be loaded, the four-characters rule answers under its own name.
 */
export function tokenizer(name: TokenizerName = "o200k_base", load = loadO200k): Tokenizer {
  const known = loaded.get(name);
  if (known !== undefined) return known;
  try {
    const real = load();
    loaded.set(name, real);
    return real;
  } catch {
    return fourCharacters;
  }
}

function loadO200k(): Tokenizer {
  const { countTokens } = createRequire(import.meta.url)(
    "gpt-tokenizer/encoding/o200k_base",
  ) as typeof import("gpt-tokenizer/encoding/o200k_base");
  // What looks like a special token is text like any other here.
  const asText = { disallowedSpecial: new Set<string>() };
  return { name: "o200k_base", count: (text) => countTokens(text, asText) };
}
