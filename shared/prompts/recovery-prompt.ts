/**
 * The prompt from which a coordinator or a specialist continues a mission: the text of seed 002, phase 3 of the
 * recovery. It is made from the recovery context without a model, so the same context yields the same bytes. Text of
 * agents is quoted and freed of secrets; see `quotation.ts`.
 *
 * A prompt over its budget loses the end of its lists first, the files before the steps and the blockers, then the ends of
 * its texts, in the steps of {@link SIZES}. The largest size that fits is taken. The mission, its progress and the time
 * are always there.
 */
import { FleetError } from "../protocol/errors.ts";
import type { RecoveryContext } from "../protocol/mission.ts";
import { PROMPT_BUDGETS, type PromptBudget, type TokenizerName } from "../protocol/prompt.ts";
import { HOW_TO_READ } from "./frame.ts";
import { clean, quoted, safe } from "./quotation.ts";
import { durationText } from "./sections.ts";
import { tokenizer } from "./tokens.ts";

export interface RecoveryPromptInput {
  readonly context: RecoveryContext;
  /** Of the checkpoint from which the mission resumed. */
  readonly progressPercent: number;
  /** Default 2,000 tokens. */
  readonly budget?: PromptBudget | undefined;
  /** Default `o200k_base`. */
  readonly tokenizer?: TokenizerName | undefined;
}

export interface RecoveryPrompt {
  readonly text: string;
  readonly tokens: number;
  /** The number of steps, blockers and files that are left out. */
  readonly leftOut: number;
}

/** Members of each list, and characters of each text. */
interface PromptSize {
  readonly steps: number;
  readonly blockers: number;
  readonly files: number;
  readonly chars: number;
}

const size = (steps: number, blockers: number, files: number, chars: number): PromptSize => ({
  ...{ steps, blockers, files, chars },
});

const ALL = Number.POSITIVE_INFINITY;

const SIZES: readonly PromptSize[] = [
  size(ALL, ALL, ALL, 2_000),
  size(ALL, ALL, 60, 1_000),
  size(ALL, ALL, 30, 600),
  size(16, 16, 15, 400),
  size(10, 10, 10, 300),
  size(6, 6, 5, 240),
  size(4, 4, 2, 160),
  size(2, 2, 0, 120),
  size(1, 1, 0, 80),
];

/** Throws INVALID if the budget is smaller than the smallest prompt; `details.minimum` has its size. */
export function recoveryPrompt(input: RecoveryPromptInput): RecoveryPrompt {
  const { budget = PROMPT_BUDGETS.default } = input;
  const counter = tokenizer(input.tokenizer);
  const lengthOf = ({ text }: Draft): number =>
    "tokens" in budget ? Math.ceil(counter.count(text)) : text.length;
  const limit = "tokens" in budget ? budget.tokens : budget.characters;
  let least = 0;
  for (const one of SIZES) {
    const draft = draftOf(input, one);
    least = lengthOf(draft);
    if (least <= limit) return { ...draft, tokens: Math.ceil(counter.count(draft.text)) };
  }
  throw new FleetError("INVALID", "the budget is smaller than the parts that a prompt never leaves out", {
    fields: [{ path: "budget", expected: `at least ${least} for this mission`, got: String(limit) }],
    details: { minimum: least },
  });
}

type Draft = Omit<RecoveryPrompt, "tokens">;

function draftOf({ context, progressPercent }: RecoveryPromptInput, limits: PromptSize): Draft {
  const { mission_summary, last_action, elapsed_time_ms, last_activity_at } = context;
  const fact = (name: string, text: string) => quoted(clean(text, limits.chars), `**${name}**: `);
  const list = (texts: readonly string[], most: number) => listOf(texts, most, limits.chars);
  const steps = list(context.next_steps, limits.steps);
  const blockers = list(context.blockers, limits.blockers);
  const files = list(context.files_modified, limits.files);
  const lines = [
    "## Recovery Context",
    "",
    "You are resuming a mission after context compaction.",
    HOW_TO_READ,
    "",
    ...fact("Mission", mission_summary),
    `**Progress**: ${progressPercent}%`,
    ...fact("Last Action", last_action),
    "",
    "### Next Steps",
    ...steps.lines,
    "",
    "### Current Blockers",
    ...blockers.lines,
    "",
    "### Files Modified",
    ...files.lines,
    "",
    "### Time Context",
    `- Elapsed: ${durationText(elapsed_time_ms)}`,
    `- Last activity: ${safe(last_activity_at)}`,
    "",
    "Please review the current state and continue the mission.",
  ];
  return { text: `${lines.join("\n")}\n`, leftOut: steps.left + blockers.left + files.left };
}

function listOf(texts: readonly string[], most: number, chars: number) {
  const kept = texts.slice(0, most);
  const left = texts.length - kept.length;
  const none = texts.length === 0 ? ["- None"] : [];
  const lines = [
    ...none,
    ...kept.flatMap((text) => quoted(clean(text, chars), "- ")),
    ...(left === 0 ? [] : [`- and ${left} more`]),
  ];
  return { lines, left };
}
