/**
 * The thread that writes the prompts of a coordinator. The tables of the tokenizer take a third of a second of processor time, and much longer on a
 * busy machine; in the service thread, no command was answered meanwhile. They take 40 MB, so the thread does not start before it is needed.
 */
import type { Prompt, PromptInput } from "../../shared/prompts/prompt.ts";
import { CallThread } from "../../shared/runtime/process/call-thread.ts";
import { programUrl } from "../../shared/runtime/process/installation.ts";
import type { PromptRenderer } from "./prompt-renderer.ts";

export class PromptThread implements PromptRenderer {
  readonly #thread = new CallThread<PromptInput>(programUrl("./prompt-program.ts", import.meta.url), {
    name: "prompts",
  });

  prepare(): void {
    this.#thread.start();
  }

  render(input: PromptInput): Promise<Prompt> {
    return this.#thread.call(input) as Promise<Prompt>;
  }

  /** Call it after the stop of the coordinator. */
  close(): Promise<void> {
    return this.#thread.close();
  }
}
