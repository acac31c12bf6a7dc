/** Continuation prompts: which styles there are, and how long a prompt may be on each way to an agent. */
import { LIMITS } from "./limits.ts";

/**
 * `standard`: everything a successor needs, the default (seed 000). `steps`: the work step by step, with its files and partial work
 * (seed 003). `mission`: a coordinator and its specialists (seed 002). `pointer`: short, for an agent that resumes its own work
 * (seed 004).
 */
export const PROMPT_STYLES = ["standard", "steps", "mission", "pointer"] as const;
export type PromptStyle = (typeof PROMPT_STYLES)[number];

/** How long a prompt may be: in tokens, or in characters as JavaScript and JSON count them (UTF-16 units). */
export type PromptBudget = { readonly tokens: number } | { readonly characters: number };

/** What each way to an agent lets through before it cuts or sets aside. */
export const PROMPT_BUDGETS = {
  default: { tokens: LIMITS.prompt_tokens_default },
  codex_hook: { tokens: 2_500 },
  claude_hook: { characters: 9_500 },
} as const satisfies Record<string, PromptBudget>;

/** How tokens are counted: by a real tokenizer, or by the rule that a token is four characters, where its 0.3 s to load are too long. */
export const TOKENIZERS = ["o200k_base", "four_characters"] as const;
export type TokenizerName = (typeof TOKENIZERS)[number];
