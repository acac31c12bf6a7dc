/** Translates failures of the store to error codes. No other module does. */
import { type ErrorCode, FleetError } from "../../protocol/errors.ts";
import { StoreError, type StoreErrorKind } from "../../store/store.ts";
import { UnreadableValue } from "./codec.ts";

/**
 * The compiler checks that no kind is missing. TIMEOUT: the outcome is unknown, and the caller retries with
 * the same command id.
 */
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

const DOWN: ReadonlySet<StoreErrorKind> = new Set(["unavailable", "commit_unknown", "closed", "fatal"]);

/**
 * Whether the store itself is unavailable. A missed deadline alone does not count, because an overloaded
 * store misses deadlines too. Neither do conflicts until the deadline: other transactions committed
 * meanwhile, so the store works.
 */
export function isStoreAway(error: unknown): boolean {
  const failure = error instanceof FleetError ? error.cause : error;
  if (!(failure instanceof StoreError) || !DOWN.has(failure.kind)) return false;
  if (failure.details.reason === "deadline") return false;
  return !(failure.cause instanceof StoreError && failure.cause.retryable);
}

/** The refusal of a body whose earlier attempt may be in flight, behind the TIMEOUT that it became; null: there is none. */
export function refusalBehind(error: unknown): FleetError | null {
  if (!(error instanceof FleetError && error.cause instanceof StoreError)) return null;
  const { cause } = error.cause;
  return cause instanceof FleetError && !cause.retryable ? cause : null;
}

export function asFleetError(error: unknown): FleetError {
  if (error instanceof FleetError) return error;
  if (error instanceof StoreError) {
    const unknown = error.committed !== "no";
    const isFull = !unknown && error.details.code === "ENOSPC";
    const message = isFull ? "the disk is full" : "the store could not do this";
    return new FleetError(unknown ? "TIMEOUT" : CODES[error.kind], message, {
      details: {
        kind: error.kind,
        ...(isFull && { disk_of: ["store"], free_bytes: error.details.free_bytes }),
        ...(!isFull && error.details.code !== undefined && { engine_code: error.details.code }),
      },
      cause: error,
    });
  }
  if (error instanceof UnreadableValue) {
    return new FleetError("CORRUPT", "a stored record cannot be read", { cause: error });
  }
  return new FleetError("INTERNAL", "an unexpected failure", { cause: error });
}
