// The thread of the prompts: the same prompts and refusals as in place, and its tables in that thread alone.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { PromptThread } from "../../../services/coordinator/prompt-thread.ts";
import { continuationPrompt } from "../../../shared/prompts/continuation.ts";
import { PROMPT_STYLES } from "../../../shared/protocol/prompt.ts";
import { refusal } from "../../harness/records/handoffs.ts";
import { usual } from "../../shared/prompts/checkpoints.ts";

let prompts: PromptThread;
beforeEach(() => {
  prompts = new PromptThread();
});
afterEach(() => prompts.close());

test("only the thread of the prompts loads the tokenizer", async () => {
  const caller = new Worker(new URL("./prompt-caller.program.ts", import.meta.url));
  onTestFinished(() => void caller.terminate());
  const [answer] = await once(caller, "message");
  // The prompt in place shows that a load is seen.
  expect(answer).toEqual({ loadedByCall: false, loadedInPlace: true });
}, 90_000);

test("every style of prompt is the same as in place", async () => {
  const inputs = PROMPT_STYLES.map((style) => ({ checkpoint: usual, style }));
  const rendered = await Promise.all(inputs.map((input) => prompts.render(input)));
  expect(rendered).toEqual(inputs.map(continuationPrompt));
}, 90_000);

test("a budget that is too small is refused as in place", async () => {
  const input = { checkpoint: usual, budget: { tokens: 1 } };
  const refused = await refusal(prompts.render(input));
  expect(refused.toBody()).toEqual((await refusal((async () => continuationPrompt(input))())).toBody());
  expect(refused.code).toBe("INVALID");
}, 90_000);
