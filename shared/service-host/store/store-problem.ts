/** Problems of the store that end a start. */
import { StartupError } from "../../runtime/process/startup.ts";
import { StoreError } from "../../store/store.ts";

export const START_STORE = "start the store, or check FLEET_STORE";

/** What the records of the store say: a newer layout, a restore that has not ended, encryption without a key, or lost records of the encryption. */
export const STATED_REFUSALS: ReadonlySet<string> = new Set(["UNSUPPORTED_VERSION", "CONFLICT", "CORRUPT"]);

/** `usualHint`: where the error has none of its own. */
export function storeProblem(error: unknown, storeUrl: string, usualHint: string): unknown {
  if (!(error instanceof StoreError)) return error;
  const { hint, ...details } = error.details as { hint?: string };
  return new StartupError(error.message, {
    exitCode: 69,
    details: { store: storeUrl, ...details },
    hint: hint ?? usualHint,
    cause: error,
  });
}
