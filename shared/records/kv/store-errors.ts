/** From failures of the store to error codes: the one place where an engine's trouble becomes a caller's answer. */
import { type ErrorCode, FleetError } from "../../protocol/errors.ts";
import { StoreError, type StoreErrorKind } from "../../store/store.ts";
import { UnreadableValue } from "./codec.ts";

/** Complete by compilation. TIMEOUT: the outcome is not known, the caller asks again with the same command id. */
const CODES: Readonly<Record<StoreErrorKind, ErrorCode>> = {
  conflict: "UNAVAILABLE",
  too_old: "UNAVAILABLE",
  throttled: "UNAVAILABLE",
  unavailable: "UNAVAILABLE",
  commit_unknown: "TIMEOUT",
  deadline: "UNAVAILABLE",
  aborted: "UNAVAILABLE",
  too_large: "TOO_LARGE",
  invalid: "INTERNAL",
  unreadable: "INTERNAL",
  closed: "UNAVAILABLE",
  fatal: "UNAVAILABLE",
};

const AWAY: ReadonlySet<StoreErrorKind> = new Set(["unavailable", "commit_unknown", "closed", "fatal"]);

/**
 * Whether the store itself is away. What is merely late says nothing: with too much to do everything is late. And a race that was lost
 * until the deadline says the contrary: others won it.
 */
export function isStoreAway(error: unknown): boolean {
  const failure = error instanceof FleetError ? error.cause : error;
  if (!(failure instanceof StoreError) || !AWAY.has(failure.kind)) return false;
  if (failure.details.reason === "deadline") return false;
  return !(failure.cause instanceof StoreError && failure.cause.retryable);
}

export function asFleetError(error: unknown): FleetError {
  if (error instanceof FleetError) return error;
  if (error instanceof StoreError) {
    const unknown = error.committed !== "no";
    return new FleetError(unknown ? "TIMEOUT" : CODES[error.kind], "the store could not do this", {
      details: { kind: error.kind },
      cause: error,
    });
  }
  if (error instanceof UnreadableValue) {
    return new FleetError("CORRUPT", "a stored record cannot be read", { cause: error });
  }
  return new FleetError("INTERNAL", "an unexpected failure", { cause: error });
}
