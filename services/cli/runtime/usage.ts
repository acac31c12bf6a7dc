// A mistake in how the command was called, found before anything was asked of the fleet. Exit code 64 (EX_USAGE).

export const USAGE_EXIT = 64;

export class UsageError extends Error {
  override readonly name = "UsageError";
  /** What to do next, as one sentence. */
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}
