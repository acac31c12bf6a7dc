/** What a coordinator needs to write prompts. Its host decides where they are written, because a large prompt takes long. */
import type { Prompt, PromptInput } from "../../shared/prompts/prompt.ts";

export interface PromptRenderer {
  /** Begins to load what prompts need, if that was not done yet. */
  prepare(): void;
  /** Rejects like `continuationPrompt`, and with another error if the prompt may succeed later. */
  render(input: PromptInput): Promise<Prompt>;
}
