// The agents and people that a message goes to. Words that were meant as another option or as the subject are refused here.

import { InvalidArgumentError } from "commander";
import { isPrincipal, PRINCIPAL_FORM } from "../../../shared/protocol/principal.ts";

/** The parser of an option that takes several recipients. */
export function collectRecipients(text: string, before: readonly string[] = []): readonly string[] {
  if (text.startsWith("-"))
    throw new InvalidArgumentError("It looks like an option. Name a recipient first.");
  if (text.includes(",")) throw new InvalidArgumentError("Separate recipients with spaces.");
  if (/\s/.test(text)) throw new InvalidArgumentError("Write the subject before the recipients.");
  if (!isPrincipal(text)) throw new InvalidArgumentError(`A recipient has ${PRINCIPAL_FORM}.`);
  return [...before, text];
}
