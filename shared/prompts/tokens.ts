// The length of a text in tokens.

import { createRequire } from "node:module";
import type { TokenizerName } from "../protocol/prompt.ts";

export interface Tokenizer {
  readonly name: TokenizerName;
  /** A fraction if tokens are estimated. The counts of a text's parts add up if each part consists of whole lines. */
  count(text: string): number;
}

const fourCharacters: Tokenizer = { name: "four_characters", count: (text) => text.length / 4 };

const loaded = new Map<TokenizerName, Tokenizer>([["four_characters", fourCharacters]]);

/**
 * Loads the real tokenizer at its first use, because its tables take 0.3 s. A coordinator loads it in the thread of its prompts, and a command that prints
 * no prompt never does. If it cannot be loaded, the four-characters estimate replaces it under its own name.
 */
export function tokenizer(name: TokenizerName = "o200k_base", load = loadO200k): Tokenizer {
  const cached = loaded.get(name);
  if (cached !== undefined) return cached;
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
  // Special tokens in the text are counted as ordinary text.
  const asText = { disallowedSpecial: new Set<string>() };
  return { name: "o200k_base", count: (text) => countTokens(text, asText) };
}
