// Continuation prompts, built in this process. It is processor work only, and every handoff waits for it.

import { continuationPrompt } from "../../../shared/prompts/continuation.ts";
import { PROMPT_BUDGETS, type PromptBudget } from "../../../shared/protocol/prompt.ts";
import { checkpointWith, usual } from "../../shared/prompts/checkpoints.ts";
import { summarize } from "../measure/percentiles.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { Session } from "../session.ts";

const ROUNDS = { warmUp: 500, full: 3_000, quick: 300 };

const large = checkpointWith({
  execution_state: {
    phase: "testing",
    completed_items: Array.from({ length: 5_000 }, (_, i) => ({
      title: `Finished part ${i} of a list of work that is far too long`,
      notes:
        "because no agent ever removed an item from the list again, so that it grew longer and longer every day",
    })),
  },
});

export async function measurePrompts(session: Session): Promise<Group> {
  const rounds = session.options.quick ? ROUNDS.quick : ROUNDS.full;
  session.log(`prompts: ${rounds} of each kind`);
  const before = performance.now();
  continuationPrompt({ checkpoint: usual });
  const first = performance.now() - before;
  const measure = (checkpoint: typeof usual, budget: PromptBudget, count: number) => {
    const times: number[] = [];
    for (let round = -ROUNDS.warmUp; round < count; round += 1) {
      const start = performance.now();
      continuationPrompt({ checkpoint, budget });
      if (round >= 0) times.push(performance.now() - start);
    }
    return summarize(times);
  };
  const whole = measure(usual, PROMPT_BUDGETS.default, rounds);
  const shrunk = measure(usual, { tokens: 800 }, rounds);
  const largest = measure(large, PROMPT_BUDGETS.default, Math.ceil(rounds / 10));
  return {
    name: "prompts",
    about: "continuation prompts, default budget of 2,000 tokens",
    rows: [
      row("prompt from a checkpoint of 4 KB, p50", whole.p50, "ms", TARGETS.prompt),
      row("prompt from a checkpoint of 4 KB, p99", whole.p99, "ms"),
      row("the same, shrunk to 800 tokens, p50", shrunk.p50, "ms"),
      row("prompt from a checkpoint of 900 KB, p50", largest.p50, "ms"),
      row("first prompt of a process, which loads the tokenizer", first, "ms"),
    ],
  };
}
