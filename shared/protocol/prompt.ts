/** Continuation prompts: their styles, and their length on each channel to an agent. */
import { LIMITS } from "./limits.ts";

/**
 * `standard`: everything that the next agent needs, the default (seed 000). `steps`: the work step by step,
 * with its files and partial work (seed 003). `mission`: a coordinator and its specialists (seed 002).
 * `pointer`: short, for an agent that resumes its own work (seed 004).
 */
export const PROMPT_STYLES = ["standard", "steps", "mission", "pointer"] as const;
export type PromptStyle = (typeof PROMPT_STYLES)[number];

/** The maximum length of a prompt, in tokens or in characters as JavaScript counts them (UTF-16 units). */
export type PromptBudget = { readonly tokens: number } | { readonly characters: number };

/** The length that each channel to an agent passes on without cutting. */
export const PROMPT_BUDGETS = {
  default: { tokens: LIMITS.prompt_tokens_default },
  codex_hook: { tokens: 2_500 },
  claude_hook: { characters: 9_500 },
} as const satisfies Record<string, PromptBudget>;

/**
 * The way to count tokens: a real tokenizer, or four characters a token, where the 0.3 s to load the
 * tokenizer are too long.
 */
export const TOKENIZERS = ["o200k_base", "four_characters"] as const;
export type TokenizerName = (typeof TOKENIZERS)[number];
