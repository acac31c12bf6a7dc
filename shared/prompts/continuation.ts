/**
 * The continuation prompt: what an agent is told that goes on with a task. It is built from the fields of a checkpoint without a
 * model, so that the same checkpoint gives the same bytes, and it fits a budget, because what is longer would be cut somewhere by the
 * program that carries it.
 *
 * Never left out: where it comes from, how to read it, the next action, and what was left out with the command that shows it. The
 * rest gives way in the order written in `reduction.ts`. Text of agents is quoted and freed of secrets; see `quotation.ts`.
 */
import { FleetError, invalid } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { PROMPT_BUDGETS, type PromptBudget } from "../protocol/prompt.ts";
import { fitToBudget, type Renderings } from "./budget.ts";
import { headOf, tailOf } from "./frame.ts";
import type { LeftOut, Prompt, PromptInput } from "./prompt.ts";
import { SectionRenderer } from "./section-renderer.ts";
import { contentsOf, SECTIONS } from "./sections.ts";
import { aboveOf } from "./styles.ts";
import { tokenizer } from "./tokens.ts";

/** Real text has four or five characters a token; what has more than this is taken as too long without being counted. */
const CHARACTERS_A_TOKEN = 8;
/** The most that a token may weigh. */
const BYTES_A_TOKEN = 16;
/** Below this everything is counted, so that the minimum is known for a budget of any size. */
const CHARACTERS_COUNTED = 4_096;

/** Throws INVALID for a budget smaller than what is never left out; `details.minimum` says how much that is. */
export function continuationPrompt(input: PromptInput): Prompt {
  const { checkpoint, style = "standard", budget = PROMPT_BUDGETS.default } = input;
  const { unit, most } = budgetOf(budget);
  const counter = tokenizer(input.tokenizer);
  const tokens = remembering((chunk) => counter.count(chunk));
  const cost = unit === "tokens" ? weighed(tokens) : (chunk: string) => chunk.length;
  const above = aboveOf(style, checkpoint, input.drift);
  const renderer = new SectionRenderer(contentsOf(checkpoint, input.drift), above, {
    cost,
    affordable: Math.max(CHARACTERS_COUNTED, unit === "tokens" ? most * CHARACTERS_A_TOKEN : most),
  });

  const head = headOf(input, style);
  const headCost = sum(head.chunks, cost);
  const tailFor = (renderings: Renderings) =>
    tailOf(input, style, {
      leftOut: leftOutOf(renderer, renderings),
      secrets: secretsOf(renderings) + head.secrets,
    });
  const fit = fitToBudget(renderer, most, (renderings) => headCost + sum(tailFor(renderings), cost));
  if (fit.cost > most) throw tooSmall(unit, most, Math.ceil(fit.cost));

  const { renderings } = fit;
  const chunks = [
    ...head.chunks,
    ...[...above.keys()].flatMap((section) => renderings.get(section)!.chunks),
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

/** A row of dashes is one token for many bytes, and what carries a prompt has a limit in bytes as well. */
const weighed =
  (tokens: (chunk: string) => number) =>
  (chunk: string): number =>
    Math.max(tokens(chunk), Buffer.byteLength(chunk) / BYTES_A_TOKEN);

function budgetOf(budget: PromptBudget): { unit: "tokens" | "characters"; most: number } {
  const unit = "tokens" in budget ? "tokens" : "characters";
  const most = "tokens" in budget ? budget.tokens : budget.characters;
  if (!Number.isInteger(most) || most < 1 || most > LIMITS.prompt_budget_max) {
    throw invalid(`budget.${unit}`, `a whole number from 1 to ${LIMITS.prompt_budget_max}`, most);
  }
  return { unit, most };
}

function tooSmall(unit: string, most: number, minimum: number): FleetError {
  return new FleetError("INVALID", "the budget is smaller than what a prompt never leaves out", {
    fields: [
      { path: `budget.${unit}`, expected: `at least ${minimum} for this checkpoint`, got: String(most) },
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

function remembering(count: (chunk: string) => number): (chunk: string) => number {
  const known = new Map<string, number>();
  return (chunk) => {
    const before = known.get(chunk);
    if (before !== undefined) return before;
    const counted = count(chunk);
    known.set(chunk, counted);
    return counted;
  };
}
