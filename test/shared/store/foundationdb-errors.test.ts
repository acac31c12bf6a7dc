import fc from "fast-check";
import { expect, test } from "vitest";
import { listedCodes, meaningOf, storeErrorOf } from "../../../shared/store/foundationdb/errors.ts";
import { type CommitOutcome, StoreError, type StoreErrorKind } from "../../../shared/store/store.ts";

// code, name in FoundationDB, kind before the commit, kind and outcome when the commit raised it
type Row = readonly [number, string, StoreErrorKind, StoreErrorKind, CommitOutcome];
const rows: readonly Row[] = [
  [1004, "timed_out", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1006, "all_alternatives_failed", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1007, "transaction_too_old", "too_old", "too_old", "no"],
  [1009, "future_version", "throttled", "throttled", "no"],
  [1020, "not_committed", "conflict", "conflict", "no"],
  [1021, "commit_unknown_result", "commit_unknown", "commit_unknown", "maybe_settled"],
  [1022, "commit_unknown_result_fatal", "fatal", "fatal", "maybe_settled"],
  [1025, "transaction_cancelled", "aborted", "commit_unknown", "maybe_in_flight"],
  [1026, "connection_failed", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1027, "coordinators_changed", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1029, "watch_cancelled", "throttled", "throttled", "no"],
  [1030, "request_maybe_delivered", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1031, "transaction_timed_out", "deadline", "commit_unknown", "maybe_in_flight"],
  [1032, "too_many_watches", "throttled", "throttled", "no"],
  [1036, "accessed_unreadable", "unreadable", "unreadable", "no"],
  [1037, "process_behind", "throttled", "throttled", "no"],
  [1038, "database_locked", "throttled", "throttled", "no"],
  [1039, "cluster_version_changed", "throttled", "commit_unknown", "maybe_settled"],
  [1041, "lookup_failed", "unavailable", "unavailable", "no"],
  [1042, "commit_proxy_memory_limit_exceeded", "throttled", "throttled", "no"],
  [1043, "shutdown_in_progress", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1051, "batch_transaction_throttled", "throttled", "throttled", "no"],
  [1078, "grv_proxy_memory_limit_exceeded", "throttled", "throttled", "no"],
  [1100, "broken_promise", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1101, "operation_cancelled", "aborted", "commit_unknown", "maybe_in_flight"],
  [1213, "tag_throttled", "throttled", "throttled", "no"],
  [1223, "proxy_tag_throttled", "throttled", "throttled", "no"],
  [1510, "io_error", "unavailable", "commit_unknown", "maybe_in_flight"],
  [1511, "file_not_found", "unavailable", "unavailable", "no"],
  [1513, "file_not_readable", "unavailable", "unavailable", "no"],
  [1514, "file_not_writable", "unavailable", "unavailable", "no"],
  [1515, "no_cluster_file_found", "unavailable", "unavailable", "no"],
  [1521, "io_timeout", "unavailable", "commit_unknown", "maybe_in_flight"],
  [2000, "client_invalid_operation", "invalid", "invalid", "no"],
  [2002, "commit_read_incomplete", "fatal", "fatal", "no"],
  [2004, "key_outside_legal_range", "invalid", "invalid", "no"],
  [2005, "inverted_range", "invalid", "invalid", "no"],
  [2006, "invalid_option_value", "invalid", "invalid", "no"],
  [2007, "invalid_option", "invalid", "invalid", "no"],
  [2008, "network_not_setup", "unavailable", "unavailable", "no"],
  [2012, "range_limits_invalid", "invalid", "invalid", "no"],
  [2017, "used_during_commit", "fatal", "fatal", "no"],
  [2018, "invalid_mutation_type", "invalid", "invalid", "no"],
  [2021, "no_commit_version", "fatal", "fatal", "maybe_settled"],
  [2025, "network_cannot_be_restarted", "fatal", "fatal", "no"],
  [2100, "incompatible_protocol_version", "unavailable", "unavailable", "no"],
  [2101, "transaction_too_large", "too_large", "too_large", "no"],
  [2102, "key_too_large", "too_large", "too_large", "no"],
  [2103, "value_too_large", "too_large", "too_large", "no"],
  [2104, "connection_string_invalid", "unavailable", "unavailable", "no"],
  [2107, "tls_error", "unavailable", "unavailable", "no"],
  [2123, "no_external_client_provided", "unavailable", "unavailable", "no"],
  [2124, "all_external_clients_failed", "unavailable", "unavailable", "no"],
  [2125, "incompatible_client", "unavailable", "unavailable", "no"],
  [2201, "api_version_already_set", "fatal", "fatal", "no"],
  [2203, "api_version_not_supported", "unavailable", "unavailable", "no"],
  [2204, "api_function_missing", "unavailable", "unavailable", "no"],
  [2210, "exact_mode_without_limits", "invalid", "invalid", "no"],
  [6000, "permission_denied", "fatal", "fatal", "no"],
];

/** fdb_error_predicate of the C client, 7.3: the codes that the engine itself calls retryable. */
const RETRYABLE_NOT_COMMITTED = [1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1213, 1223];
const MAYBE_COMMITTED = [1021, 1039];

const engineError = (code: number) => Object.assign(new Error("from the engine"), { code });

test.each(rows)(
  "%i %s: %s before the commit, %s (%s) at the commit",
  (code, _name, before, at, committed) => {
    expect(meaningOf(code, "before_commit")).toEqual({ kind: before, committed: "no" });
    expect(meaningOf(code, "commit")).toEqual({ kind: at, committed });
  },
);

test("the rows above are all of the driver's table", () => {
  expect([...listedCodes].sort()).toEqual(rows.map(([code]) => code).sort());
});

test("exactly the engine's own retryable codes, and the two about watches, are retried as not committed", () => {
  const retried = [...listedCodes].filter((code) => storeErrorOf(engineError(code), "commit").retryable);
  expect(retried.sort()).toEqual([...RETRYABLE_NOT_COMMITTED, 1029, 1032].sort());
});

test("codes that the engine calls maybe committed are unknown and settled", () => {
  for (const code of MAYBE_COMMITTED) {
    expect(meaningOf(code, "commit")).toEqual({ kind: "commit_unknown", committed: "maybe_settled" });
  }
});

test("a kind that means not committed never has another outcome", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 7_000 }),
      fc.constantFrom("before_commit", "commit"),
      (code, phase) => {
        const { kind, committed } = meaningOf(code, phase);
        if (phase === "before_commit") expect(committed).toBe("no");
        else if (committed !== "no") expect(["commit_unknown", "fatal"]).toContain(kind);
      },
    ),
  );
});

test("an unlisted code is fatal, and may still land when a commit raised it", () => {
  expect(meaningOf(4100, "before_commit")).toEqual({ kind: "fatal", committed: "no" });
  expect(meaningOf(4100, "commit")).toEqual({ kind: "fatal", committed: "maybe_in_flight" });
});

test("the engine's code and text become details, the message stays static", () => {
  const cause = engineError(1020);
  const error = storeErrorOf(cause, "commit");
  expect(error).toBeInstanceOf(StoreError);
  expect(error.details).toEqual({ engine_code: 1020, engine_message: "from the engine", phase: "commit" });
  expect(error.message).not.toContain("1020");
  expect(error.cause).toBe(cause);
});

test("a store error passes through, anything else is fatal", () => {
  const own = new StoreError("too_large", "value is too long");
  expect(storeErrorOf(own, "commit")).toBe(own);
  const foreign = storeErrorOf(new TypeError("no number"), "commit");
  expect([foreign.kind, foreign.committed]).toEqual(["fatal", "maybe_in_flight"]);
});
