// A mistake in the call, found before the fleet was asked: exit code 64 (EX_USAGE). And the exit code of a check that has found a problem.

import { exitCodes } from "../../../shared/runtime/process/startup.ts";

export const USAGE_EXIT = exitCodes.usage;
export const FINDINGS_EXIT = 1;

export class UsageError extends Error {
  override readonly name = "UsageError";
  /** The next step for the caller, as one sentence. */
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}
