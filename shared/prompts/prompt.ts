// What a continuation prompt is made from, and what it is.

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
  /** How the workspace stands, when it was compared. */
  readonly drift?: WorkspaceDrift | undefined;
  /** The handoff that brings the task, when there is one; its record fits. */
  readonly handoff?: PromptHandoff | undefined;
  /** Newer checkpoints that are corrupt and were passed over. */
  readonly passedOver?: readonly string[] | undefined;
  /** Default `o200k_base`. */
  readonly tokenizer?: TokenizerName | undefined;
  /** How the `fleet` command is called where the agent works. */
  readonly fleet?: string | undefined;
}

export interface PromptHandoff {
  readonly handoff_id: string;
  /** null while none was chosen. */
  readonly to_agent_type: string | null;
  readonly next_phase?: string | null | undefined;
  readonly reason?: string | null | undefined;
  readonly trigger?: {
    readonly reason: string;
    readonly value?: unknown;
    readonly threshold?: unknown;
  } | null;
  /** The attempt at recovery that it is; null: no agent failed. */
  readonly recovery?: { readonly attempt: number; readonly class: string | null } | null;
}

export interface LeftOut {
  readonly section: SectionName;
  /** Items that are not in the prompt. */
  readonly items: number;
  /** Items that are in the prompt in part. */
  readonly shortened: number;
}

export interface Prompt {
  readonly text: string;
  readonly tokens: number;
  readonly characters: number;
  readonly style: PromptStyle;
  /** What counted the tokens. */
  readonly tokenizer: TokenizerName;
  readonly leftOut: readonly LeftOut[];
  /** Secrets that were found in the text and replaced. */
  readonly secrets: number;
}
