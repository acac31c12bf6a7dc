/**
 * The meaning of each FoundationDB error code for a caller of the store. The retry loop uses only the kind
 * and the possible outcome of the commit.
 *
 * The outcome counts only when the commit raised the error. Before the commit nothing was sent, so the
 * outcome is always "no". Where a commit may have taken effect the kind becomes `commit_unknown`, because the
 * original kind would mean "not committed" to the caller.
 *
 * A code that is not in the table is `fatal`, and in flight when a commit raised it: the safe assumption.
 */
import { type CommitOutcome, StoreError, type StoreErrorKind } from "../store.ts";

export type TransactionPhase = "before_commit" | "commit";

interface Meaning {
  readonly kind: StoreErrorKind;
  readonly atCommit: CommitOutcome;
}

const meanings = new Map<number, Meaning>();

function means(kind: StoreErrorKind, atCommit: CommitOutcome, codes: readonly number[]): void {
  for (const code of codes) meanings.set(code, { kind, atCommit });
}

// Not committed; the same body may succeed.
means("conflict", "no", [
  1020, // not_committed
]);
means("too_old", "no", [
  1007, // transaction_too_old
]);
means("throttled", "no", [
  1009, // future_version: the storage server is behind the reader
  1029, // watch_cancelled: the storage server has too many watches
  1032, // too_many_watches: this client has too many watches
  1037, // process_behind
  1038, // database_locked
  1042, // commit_proxy_memory_limit_exceeded
  1051, // batch_transaction_throttled
  1078, // grv_proxy_memory_limit_exceeded
  1213, // tag_throttled
  1223, // proxy_tag_throttled
]);
means("throttled", "maybe_settled", [
  1039, // cluster_version_changed
]);

// The commit may have taken effect.
means("commit_unknown", "maybe_settled", [
  1021, // commit_unknown_result: the client has made sure that no part of it is still in flight
]);
means("deadline", "maybe_in_flight", [
  1031, // transaction_timed_out
]);
means("aborted", "maybe_in_flight", [
  1025, // transaction_cancelled
  1101, // operation_cancelled
]);
means("fatal", "maybe_settled", [
  1022, // commit_unknown_result_fatal: raised only for automatic idempotency ids, which are never switched on
  2021, // no_commit_version: the commit returned, and the stamp asked for with it does not exist
]);

// The cluster cannot be found, so nothing was sent.
means("unavailable", "no", [
  1041, // lookup_failed: a coordinator's name does not resolve
  1511, // file_not_found
  1513, // file_not_readable
  1514, // file_not_writable
  1515, // no_cluster_file_found
  2008, // network_not_setup
  2100, // incompatible_protocol_version
  2104, // connection_string_invalid
  2107, // tls_error
  2123, // no_external_client_provided
  2124, // all_external_clients_failed
  2125, // incompatible_client
  2203, // api_version_not_supported: libfdb_c is too old
  2204, // api_function_missing: libfdb_c is too old
]);
// The connection to the cluster broke during use.
means("unavailable", "maybe_in_flight", [
  1004, // timed_out
  1006, // all_alternatives_failed
  1026, // connection_failed
  1027, // coordinators_changed
  1030, // request_maybe_delivered
  1043, // shutdown_in_progress
  1100, // broken_promise
  1510, // io_error
  1521, // io_timeout
]);

// Refused by the client library before anything was sent.
means("unreadable", "no", [
  1036, // accessed_unreadable
]);
means("too_large", "no", [
  2101, // transaction_too_large
  2102, // key_too_large
  2103, // value_too_large
]);
means("invalid", "no", [
  2000, // client_invalid_operation
  2004, // key_outside_legal_range
  2005, // inverted_range
  2006, // invalid_option_value
  2007, // invalid_option
  2012, // range_limits_invalid
  2018, // invalid_mutation_type
  2210, // exact_mode_without_limits
]);
means("fatal", "no", [
  2002, // commit_read_incomplete: the driver did not wait for a read
  2017, // used_during_commit: the driver let a transaction be used while it committed
  2025, // network_cannot_be_restarted
  2201, // api_version_already_set
  6000, // permission_denied
]);

const UNLISTED: Meaning = { kind: "fatal", atCommit: "maybe_in_flight" };

/** All codes of the table. */
export const listedCodes: ReadonlySet<number> = new Set(meanings.keys());

/** The kind and the outcome of an error code that was raised in `phase`. */
export function meaningOf(
  code: number,
  phase: TransactionPhase,
): { kind: StoreErrorKind; committed: CommitOutcome } {
  const { kind, atCommit } = meanings.get(code) ?? UNLISTED;
  if (phase === "before_commit" || atCommit === "no") return { kind, committed: "no" };
  return { kind: kind === "fatal" ? kind : "commit_unknown", committed: atCommit };
}

function codeOf(error: unknown): number | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "number" ? code : undefined;
}

/** Turns any failure of the client library into a {@link StoreError}; a StoreError is returned as it is. */
export function storeErrorOf(error: unknown, phase: TransactionPhase): StoreError {
  if (error instanceof StoreError) return error;
  const code = codeOf(error);
  if (code === undefined) {
    return new StoreError("fatal", "the FoundationDB client failed", {
      committed: phase === "commit" ? "maybe_in_flight" : "no",
      details: { phase },
      cause: error,
    });
  }
  const { kind, committed } = meaningOf(code, phase);
  return new StoreError(kind, "FoundationDB reported an error", {
    committed,
    details: { engine_code: code, engine_message: (error as Error).message, phase },
    cause: error,
  });
}
