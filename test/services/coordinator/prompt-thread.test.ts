// The thread of the prompts: the same prompts and refusals as in place, without the time of the calling thread.

import { afterEach, beforeEach, expect, test } from "vitest";
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

/** The processor time of this thread that a piece of work takes. */
async function ownTime(work: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  await work();
  const { user, system } = process.threadCpuUsage(before);
  return user + system;
}

test("the load of the tokenizer and the prompts take little time of the calling thread", async () => {
  prompts.prepare();
  const input = { checkpoint: usual };
  const called = await ownTime(() => prompts.render(input));
  // The same work in this thread, which loads the tokenizer as well.
  const inPlace = await ownTime(() => continuationPrompt(input));
  expect(called).toBeLessThan(inPlace / 4);
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
