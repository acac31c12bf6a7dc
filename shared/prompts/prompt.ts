// The input of a continuation prompt, and the prompt.

import type { Checkpoint } from "../protocol/checkpoint.ts";
import type { PromptBudget, PromptStyle, TokenizerName } from "../protocol/prompt.ts";
import type { WorkspaceDrift } from "../protocol/workspace.ts";
import type { SectionName } from "./sections.ts";

export interface PromptInput {
  readonly checkpoint: Checkpoint;
  /** Default `standard`. */
  readonly style?: PromptStyle | undefined;
  /** Default 2,000 tokens; `PROMPT_BUDGETS` knows the others. */
  readonly budget?: PromptBudget | undefined;
  /** The result of the workspace comparison, if there was one. */
  readonly drift?: WorkspaceDrift | undefined;
  /** The handoff of the task, if there is one; its record has the right type. */
  readonly handoff?: PromptHandoff | undefined;
  /** The ids of newer checkpoints that are corrupt and were skipped. */
  readonly passedOver?: readonly string[] | undefined;
  /** Default `o200k_base`. */
  readonly tokenizer?: TokenizerName | undefined;
  /** The agent that reads the prompt: its own checkpoint is not from another agent. Default: unknown. */
  readonly reader?: string | undefined;
  /** The name of the `fleet` command on the agent's machine. */
  readonly fleet?: string | undefined;
}

export interface PromptHandoff {
  readonly handoff_id: string;
  /** null until it is chosen. */
  readonly to_agent_type: string | null;
  readonly next_phase?: string | null | undefined;
  readonly reason?: string | null | undefined;
  readonly trigger?: {
    readonly reason: string;
    readonly value?: unknown;
    readonly threshold?: unknown;
  } | null;
  /** The recovery attempt; null if the handoff is not one. */
  readonly recovery?: { readonly attempt: number; readonly class: string | null } | null;
}

export interface LeftOut {
  readonly section: SectionName;
  /** The number of omitted items. */
  readonly items: number;
  /** The number of truncated items. */
  readonly shortened: number;
}

export interface Prompt {
  readonly text: string;
  readonly tokens: number;
  readonly characters: number;
  readonly style: PromptStyle;
  /** The tokenizer that counted the tokens. */
  readonly tokenizer: TokenizerName;
  readonly leftOut: readonly LeftOut[];
  /** The number of secrets that were replaced in the text. */
  readonly secrets: number;
}
