// The questions to an operator at a terminal: the missing parts of a checkpoint, and confirmations. They are printed on
// standard error, so that standard output carries the answer alone.

import { confirm, select, text } from "@clack/prompts";
import { BUILTIN_AGENT_TYPES, PHASES } from "../../../shared/protocol/checkpoint.ts";
import { REVOCATION_REASONS, type RevocationReason } from "../../../shared/protocol/signing-keys.ts";
import { UsageError } from "./usage.ts";

type Missing = "task" | "type" | "phase";

export async function askFor(missing: readonly Missing[]): Promise<Partial<Record<Missing, string>>> {
  const answers: Partial<Record<Missing, string>> = {};
  for (const name of missing) {
    const answer = await QUESTIONS[name]();
    // The symbol that clack returns for Ctrl-C.
    if (typeof answer !== "string")
      throw new UsageError("nothing was written", "You cancelled the questions.");
    answers[name] = answer;
  }
  return answers;
}

/** Asks for a confirmation. Ctrl-C means no. */
export async function isConfirmed(message: string): Promise<boolean> {
  return (await confirm({ message, initialValue: false, output })) === true;
}

/** null: Ctrl-C. */
export async function askForRevocation(keyId: string): Promise<RevocationReason | null> {
  const message = `Why is key ${keyId} revoked for good?`;
  const answer = await select({ message, options: choices(REVOCATION_REASONS), output });
  return REVOCATION_REASONS.find((reason) => reason === answer) ?? null;
}

const output = process.stderr;
const choices = (values: readonly string[]) => values.map((value) => ({ value }));

const QUESTIONS: Readonly<Record<Missing, () => Promise<string | symbol>>> = {
  task: () =>
    text({
      message: "Which task?",
      placeholder: "auth-rework",
      validate: (value) => (value ? undefined : "Give a name of A-Z a-z 0-9 _ -."),
      output,
    }),
  type: () => select({ message: "Which type of agent?", options: choices(BUILTIN_AGENT_TYPES), output }),
  phase: () => select({ message: "Which phase?", options: choices(PHASES), output }),
};
