/**
 * The continuation prompt, from which the next agent continues a task. It is built from the fields of a checkpoint without a model, so
 * the same checkpoint yields the same bytes. It fits a budget, because the program that carries it would cut a longer one anywhere.
 *
 * The provenance, the reading instructions, the next action, and the list of omissions with the command that shows them are never left
 * out. Everything else is reduced in the order of `reduction.ts`. Text of agents is quoted and freed of secrets; see `quotation.ts`.
 */
import { FleetError, invalid } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { PROMPT_BUDGETS, type PromptBudget } from "../protocol/prompt.ts";
import { fitToBudget, type Renderings } from "./budget.ts";
import { headOf, tailOf } from "./frame.ts";
import type { LeftOut, Prompt, PromptInput } from "./prompt.ts";
import { SectionRenderer } from "./section-renderer.ts";
import { contentsOf, SECTIONS } from "./sections.ts";
import { headersOf, STYLES } from "./styles.ts";
import { tokenizer } from "./tokens.ts";

/** Real text has four or five characters per token. Text with more than this per token is too long and is not counted. */
const CHARACTERS_PER_TOKEN = 8;
/** A token counts for at most this many bytes. */
const BYTES_PER_TOKEN = 16;
/** Text up to this length is always counted, so that the minimum is known for a budget of any size. */
const CHARACTERS_COUNTED = 4_096;

/** Throws INVALID if the budget is smaller than the parts that are never left out; `details.minimum` has their size. */
export function continuationPrompt(input: PromptInput): Prompt {
  const { checkpoint, style = "standard", budget = PROMPT_BUDGETS.default } = input;
  const { unit, limit } = budgetOf(budget);
  const counter = tokenizer(input.tokenizer);
  const tokens = memoized((chunk) => counter.count(chunk));
  const cost = unit === "tokens" ? weighed(tokens) : (chunk: string) => chunk.length;
  const headers = headersOf(style, checkpoint, input.drift);
  const shown = { sections: new Set(headers.keys()), isChecklist: STYLES[style].isChecklist ?? false };
  const renderer = new SectionRenderer(contentsOf(checkpoint, input.drift, shown), headers, {
    cost,
    affordable: Math.max(CHARACTERS_COUNTED, unit === "tokens" ? limit * CHARACTERS_PER_TOKEN : limit),
  });

  const head = headOf(input, style);
  const headCost = sum(head.chunks, cost);
  const tailFor = (renderings: Renderings) =>
    tailOf(input, style, {
      leftOut: leftOutOf(renderer, renderings),
      secrets: secretsOf(renderings) + head.secrets,
    });
  const fit = fitToBudget(renderer, limit, (renderings) => headCost + sum(tailFor(renderings), cost));
  if (fit.cost > limit) throw tooSmall(unit, limit, Math.ceil(fit.cost));

  const { renderings } = fit;
  const chunks = [
    ...head.chunks,
    ...[...headers.keys()].flatMap((section) => renderings.get(section)!.chunks),
    ...tailFor(renderings),
  ];
  const text = chunks.join("");
  return {
    text,
    tokens: Math.ceil(sum(chunks, tokens)),
    characters: text.length,
    style,
    tokenizer: counter.name,
    leftOut: leftOutOf(renderer, renderings),
    secrets: secretsOf(renderings) + head.secrets,
  };
}

/** A row of dashes is one token and many bytes, and the programs that carry prompts limit bytes as well. */
const weighed =
  (tokens: (chunk: string) => number) =>
  (chunk: string): number =>
    Math.max(tokens(chunk), Buffer.byteLength(chunk) / BYTES_PER_TOKEN);

function budgetOf(budget: PromptBudget): { unit: "tokens" | "characters"; limit: number } {
  const unit = "tokens" in budget ? "tokens" : "characters";
  const limit = "tokens" in budget ? budget.tokens : budget.characters;
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMITS.prompt_budget_max) {
    throw invalid(`budget.${unit}`, `a whole number from 1 to ${LIMITS.prompt_budget_max}`, limit);
  }
  return { unit, limit };
}

function tooSmall(unit: string, limit: number, minimum: number): FleetError {
  return new FleetError("INVALID", "the budget is smaller than the parts that a prompt never leaves out", {
    fields: [
      { path: `budget.${unit}`, expected: `at least ${minimum} for this checkpoint`, got: String(limit) },
    ],
    details: { minimum, unit },
  });
}

function leftOutOf(renderer: SectionRenderer, renderings: Renderings): LeftOut[] {
  return SECTIONS.map((section) => {
    const { missing, shortened } = renderings.get(section)!;
    return { section, items: missing, shortened };
  }).filter(({ section, items, shortened }) => renderer.count(section) > 0 && items + shortened > 0);
}

const secretsOf = (renderings: Renderings): number =>
  [...renderings.values()].reduce((all, { secrets }) => all + secrets, 0);

const sum = (chunks: readonly string[], cost: (chunk: string) => number): number =>
  chunks.reduce((all, chunk) => all + cost(chunk), 0);

function memoized(count: (chunk: string) => number): (chunk: string) => number {
  const counts = new Map<string, number>();
  return (chunk) => {
    const before = counts.get(chunk);
    if (before !== undefined) return before;
    const counted = count(chunk);
    counts.set(chunk, counted);
    return counted;
  };
}
