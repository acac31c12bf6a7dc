// What a person is asked: for what a checkpoint lacks, and whether something is meant. On standard error, so that the answer stays alone
// on standard output.

import { confirm, select, text } from "@clack/prompts";
import { BUILTIN_AGENT_TYPES, PHASES } from "../../../shared/protocol/checkpoint.ts";
import { UsageError } from "./usage.ts";

type Missing = "task" | "type" | "phase";

export async function askFor(missing: readonly Missing[]): Promise<Partial<Record<Missing, string>>> {
  const answers: Partial<Record<Missing, string>> = {};
  for (const name of missing) {
    const answer = await QUESTIONS[name]();
    // Anything else is the sign of Ctrl-C.
    if (typeof answer !== "string") throw new UsageError("nothing was written", "You left the questions.");
    answers[name] = answer;
  }
  return answers;
}

/** Ctrl-C is a no. */
export async function confirmed(message: string): Promise<boolean> {
  return (await confirm({ message, initialValue: false, output })) === true;
}

const output = process.stderr;
const choices = (values: readonly string[]) => values.map((value) => ({ value }));

const QUESTIONS: Readonly<Record<Missing, () => Promise<string | symbol>>> = {
  task: () =>
    text({
      message: "Which task?",
      placeholder: "auth-rework",
      validate: (value) => (value ? undefined : "A name of A-Z a-z 0-9 _ -"),
      output,
    }),
  type: () => select({ message: "What kind of work?", options: choices(BUILTIN_AGENT_TYPES), output }),
  phase: () => select({ message: "In which phase?", options: choices(PHASES), output }),
};
