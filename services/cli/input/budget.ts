// The size of a prompt as operators write it: 2000 (tokens), 9500c (characters), or the name of the channel that
// carries the prompt.

import { InvalidArgumentError } from "commander";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { PROMPT_BUDGETS, type PromptBudget } from "../../../shared/protocol/prompt.ts";

const CHANNELS: Readonly<Record<string, PromptBudget>> = PROMPT_BUDGETS;

export function promptBudget(text: string): PromptBudget {
  if (Object.hasOwn(CHANNELS, text)) return CHANNELS[text]!;
  const [, digits, unit] = /^(\d+)([tc]?)$/.exec(text) ?? [];
  const size = Number(digits);
  if (size >= 1 && size <= LIMITS.prompt_budget_max)
    return unit === "c" ? { characters: size } : { tokens: size };
  throw new InvalidArgumentError(
    `Give tokens or characters, such as 2000, 9500c, or one of ${Object.keys(CHANNELS).join(", ")}.`,
  );
}
